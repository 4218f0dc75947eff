import type { Warnings } from './warnings.ts'

/** The hub has OpenAI's names for tiers. Other vendors have their own for the usual service. */
export function commonTier(tier: string | undefined): string | undefined {
  if (tier === 'unspecified') return undefined
  return tier === 'standard' || tier === 'standard_only' ? 'default' : tier
}

/** The vendor's name for a tier; undefined: the vendor lacks this tier, and it is not requested. */
export function tierIn(
  names: Readonly<Record<string, string>>,
  tier: string | undefined,
  warnings: Warnings,
): string | undefined {
  if (tier === undefined) return undefined
  const name = names[tier]
  if (name === undefined) warnings.unsupported('service_tier')
  return name
}
