/**
 * What a request may ask its provider to do at another price than the usual one: `mode` and `sound` are of videos. Only a
 * request that asks for one gets it, and only where the price names it.
 */
export const SERVICES = ['service_tier', 'inference_geo', 'mode', 'sound'] as const
export type Service = (typeof SERVICES)[number]

/** Other words for what every request gets. */
const USUAL: Readonly<Record<Service, readonly string[]>> = {
  service_tier: ['auto', 'default', 'standard', 'standard_only', 'on_demand', 'unspecified'],
  inference_geo: ['global'],
  mode: ['std', 'standard', 'default', 'normal', 'auto'],
  sound: ['off', 'none', 'auto', 'default'],
}

export const isUsual = (service: Service, value: string): boolean => USUAL[service].includes(value)

/** Services that no vendor takes more for than for the usual one. */
export const isNeverDearer = (service: Service, value: string): boolean =>
  service === 'service_tier' && value === 'flex'
