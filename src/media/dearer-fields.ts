import { headerText } from '../domain/warning.ts'

/** Normalizes a name: some vendors ignore case and accept both spellings. */
export const plainName = (name: string) => name.toLowerCase().replace(/[^a-z0-9]/g, '')

/** Words in the names of fields that request a better or larger service. */
const SERVICE =
  /mode(?!ration)|upscal|superres|ultra|premium|turbo|master|prioriti|priority|tier|plan$|boost|addon|batch|candidat|numsample|copies|^hd|hd$|4k|8k/
/** Words in the names of fields that request extras of a video. */
const VIDEO = /sound|audio|music|bgm|voice|speech|lipsync|^lip|interpolat|multishot|effect|template/

/** Whether a vendor's own field may raise the cost of a video. */
export const isDearerVideoField = (name: string): boolean => {
  const plain = plainName(name)
  return SERVICE.test(plain) || VIDEO.test(plain)
}

/** The same for speech. */
export const isDearerSpeechField = (name: string): boolean => SERVICE.test(plainName(name))

/** The warnings about vendor's own fields that are not sent. A client may name any number of them, at any length. */
export const unpricedWarnings = (names: readonly string[]): readonly string[] =>
  names.length === 0
    ? []
    : [headerText(names.map(name => `${name} has no price and was left out`).join('; '))]
