import { usageIn } from '../chat/gemini/usage.ts'
import { sumUsage, type Usage } from '../domain/usage.ts'
import type { ImageAnswer, Picture } from '../media/image.ts'
import type { StoredFile } from '../wire/multipart.ts'
import { memberOf } from './member.ts'

/** A form may omit the type. */
export const pictureType = ({ type }: StoredFile) => (type.startsWith('image/') ? type : 'image/png')

const textIn = (value: unknown, name: string): string | undefined => {
  const text = memberOf(value, name)
  return typeof text === 'string' && text !== '' ? text : undefined
}

function pictureOf(value: unknown): Picture[] {
  const url = textIn(value, 'url')
  const b64_json = textIn(value, 'b64_json')
  if (url === undefined && b64_json === undefined) return []
  return [{ url, b64_json, revised_prompt: textIn(value, 'revised_prompt') }]
}

/** Reads images in the common shape, from one response or from the responses of several requests. */
export function readPictures(answer: unknown): ImageAnswer {
  const answers = Array.isArray(answer) ? answer : [answer]
  const lists = answers.map(each => memberOf(each, 'data'))
  return { pictures: lists.flatMap(list => (Array.isArray(list) ? list.flatMap(pictureOf) : [])) }
}

/**
 * Tokens as Google reports them, by the modality of the output. Answers to the same request are alike: one without a report
 * counts like another one.
 */
export function googleUsage(answers: readonly unknown[]): Usage | undefined {
  const usages = answers.map(usageIn)
  const reported = usages.find(usage => usage !== undefined)
  return reported && { ...sumUsage(usages.map(usage => usage ?? reported)), calls: 1 }
}
