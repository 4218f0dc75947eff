/**
 * Options of a provider that change the price; `mode` and `sound` are for videos. A request gets one only if it asks for it
 * and the price has a variant for it.
 */
export const SERVICES = ['service_tier', 'inference_geo', 'mode', 'sound'] as const
export type Service = (typeof SERVICES)[number]

/** Values that mean the default. */
const USUAL: Readonly<Record<Service, readonly string[]>> = {
  service_tier: ['auto', 'default', 'standard', 'standard_only', 'on_demand', 'unspecified'],
  inference_geo: ['global'],
  mode: ['std', 'standard', 'default', 'normal', 'auto'],
  sound: ['off', 'none', 'auto', 'default'],
}

export const isUsual = (service: Service, value: string): boolean => USUAL[service].includes(value)

/** Services that no vendor charges more for than for the default. */
export const isNeverDearer = (service: Service, value: string): boolean =>
  service === 'service_tier' && value === 'flex'
