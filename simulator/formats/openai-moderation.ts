import { isObject } from '../json.ts'
import { countTokens } from '../tokens.ts'
import type { Inquiry, Reply } from './format.ts'
import { decodeRequest, missing } from './openai-request.ts'

/** The keywords of each category; some common categories are missing, as with some providers. */
const SIGNS: Readonly<Record<string, RegExp>> = {
  hate: /hate/,
  harassment: /idiot/,
  'harassment/threatening': /threat/,
  'self-harm': /harm/,
  sexual: /naked/,
  violence: /kill/,
  illicit: /steal/,
}

export function answerModeration({ id, body }: Inquiry): Reply {
  const { request, model } = decodeRequest(body)
  const { input } = request
  if (input === undefined || input === null) throw missing('input')
  const texts = textsOf(input)
  const results = texts.map(text => {
    const categories = Object.fromEntries(
      Object.entries(SIGNS).map(([name, sign]) => [name, sign.test(text)]),
    )
    const scores = Object.fromEntries(Object.keys(SIGNS).map(name => [name, categories[name] ? 0.9 : 0.01]))
    const flagged = Object.values(categories).includes(true)
    return { flagged, categories, category_scores: scores }
  })
  const promptTokens = texts.reduce((sum, text) => sum + countTokens(text), 0)
  const bill = { id: `modr-${id}`, model, promptTokens, units: { inputs: texts.length } }
  return { kind: 'whole', body: JSON.stringify({ id: bill.id, model, results }), tokens: 0, bill }
}

/** Parts together are one input; each text is one input. */
function textsOf(input: unknown): string[] {
  if (typeof input === 'string') return [input]
  if (!Array.isArray(input)) return []
  if (input.every(each => typeof each === 'string')) return input
  return [input.map(part => (isObject(part) && typeof part.text === 'string' ? part.text : '')).join(' ')]
}
