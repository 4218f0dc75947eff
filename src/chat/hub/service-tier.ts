import type { Warnings } from './warnings.ts'

/** The vendor's name for a tier; undefined: the vendor lacks this tier, and it is not requested. */
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
