/** Some vendors fold cases and take both spellings of a name: one spelling stands for all. */
export const plainName = (name: string) => name.toLowerCase().replace(/[^a-z0-9]/g, '')

/** Words in the names of fields by which vendors sell a better service, or more of it. */
const SERVICE =
  /mode(?!ration)|upscal|superres|ultra|premium|turbo|master|prioriti|priority|tier|plan$|boost|addon|batch|candidat|numsample|copies|^hd|hd$|4k|8k/
/** Words of what they sell beside a plain video. */
const VIDEO = /sound|audio|music|bgm|voice|speech|lipsync|^lip|interpolat|multishot|effect|template/

/** Whether a field of a vendor's own may make a video dearer. */
export const isDearerVideoField = (name: string): boolean => {
  const plain = plainName(name)
  return SERVICE.test(plain) || VIDEO.test(plain)
}

/** The same of speech. */
export const isDearerSpeechField = (name: string): boolean => SERVICE.test(plainName(name))

/** Why a field of a vendor's own is not sent. */
export const UNPRICED = 'has no price and was left out'
