import type { SimulatedChat } from '../answer.ts'

/** The reasoning text of a model, in every format that shows reasoning. */
export const thoughtFor = ({ lastMessage }: SimulatedChat): string =>
  `The ${lastMessage.by} said something of ${lastMessage.text.length} letters. I had better answer.`

/** The signature of a thought: a vendor rejects thoughts with another one. */
export const signatureOf = (thought: string): string =>
  `sim-signature-${Buffer.from(thought).toString('base64').slice(0, 24)}`

/** A part of a long prompt is cached; the shares always add up to the prompt. */
export function cacheShares(promptTokens: number) {
  const isCached = promptTokens >= 32
  const cached = isCached ? Math.floor(promptTokens / 4) : 0
  const cacheWrites = isCached ? Math.floor(promptTokens / 8) : 0
  return { cached, cacheWrites, rest: promptTokens - cached - cacheWrites }
}
