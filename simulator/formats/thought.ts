import type { Ask } from '../answer.ts'

/** What a model that was asked to think thinks, in every format that tells thoughts. */
export const thoughtFor = ({ lastMessage }: Ask): string =>
  `The ${lastMessage.by} said something of ${lastMessage.text.length} letters. I had better answer.`

/** Nobody else could have made it: a vendor refuses thoughts that come back with another one. */
export const proofOf = (thought: string): string =>
  `sim-signature-${Buffer.from(thought).toString('base64').slice(0, 24)}`

/** A prompt of some length has been seen before in part; the shares always sum up to it. */
export function cacheShares(promptTokens: number) {
  const isCached = promptTokens >= 32
  const cached = isCached ? Math.floor(promptTokens / 4) : 0
  const cacheWrites = isCached ? Math.floor(promptTokens / 8) : 0
  return { cached, cacheWrites, rest: promptTokens - cached - cacheWrites }
}
