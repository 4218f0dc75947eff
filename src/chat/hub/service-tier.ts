import type { Warnings } from './warnings.ts'

/** The vendor's word for a tier; one that it has no word for is not asked for. */
export function tierIn(
  words: Readonly<Record<string, string>>,
  tier: string | undefined,
  warnings: Warnings,
): string | undefined {
  if (tier === undefined) return undefined
  const word = words[tier]
  if (word === undefined) warnings.unsayable('service_tier')
  return word
}
