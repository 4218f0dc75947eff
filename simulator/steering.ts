import type { IncomingHttpHeaders } from 'node:http'
import { ProviderError } from './provider-error.ts'

/**
 * Settings of one request: in a header, or in a word of its model's name (`sim-words-50-pace-20`), because a gateway may
 * drop headers but must forward the model.
 */
const SETTINGS = {
  latencyMs: { header: 'x-sim-latency-ms', word: 'latency', most: 60_000 },
  paceMs: { header: 'x-sim-pace-ms', word: 'pace', most: 60_000 },
  words: { header: 'x-sim-words', word: 'words', most: 100_000 },
  searches: { header: 'x-sim-searches', word: 'searches', most: 1_000 },
} as const

export type SteeringName = keyof typeof SETTINGS

/** The requested value, from the header, else from the model's name; bounded. */
export function steer(
  setting: SteeringName,
  headers: IncomingHttpHeaders,
  model: string | undefined,
): number | undefined {
  const { header, word } = SETTINGS[setting]
  const value = headers[header]
  if (typeof value === 'string') {
    if (!/^\d+$/.test(value))
      throw new ProviderError('bad_steering', `The header ${header} must be a whole number.`)
    return bound(setting, Number(value))
  }
  if (model?.startsWith('sim-') !== true) return undefined
  const words = model.split('-')
  const position = words.indexOf(word, 1)
  const number = position === -1 ? undefined : words[position + 1]
  return number !== undefined && /^\d+$/.test(number) ? bound(setting, Number(number)) : undefined
}

export function bound(setting: SteeringName, value: number): number {
  return Math.min(Math.max(value, 0), SETTINGS[setting].most)
}
