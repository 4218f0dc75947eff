/**
 * Options of a provider that change the price; `mode` and `sound` are for videos. A request gets an option only if it
 * contains it and the price has a variant for it.
 */
export const SERVICES = ['service_tier', 'inference_geo', 'mode', 'sound'] as const
export type Service = (typeof SERVICES)[number]

/** Values that mean the default. */
const DEFAULT_VALUES: Readonly<Record<Service, readonly string[]>> = {
  service_tier: ['auto', 'default', 'standard', 'standard_only', 'on_demand', 'unspecified'],
  inference_geo: ['global'],
  mode: ['std', 'standard', 'default', 'normal', 'auto'],
  sound: ['off', 'none', 'auto', 'default'],
}

export const isDefault = (service: Service, value: string): boolean => DEFAULT_VALUES[service].includes(value)

/** Whether every vendor charges at most the default price for this service. */
export const isNeverMoreExpensive = (service: Service, value: string): boolean =>
  service === 'service_tier' && value === 'flex'
