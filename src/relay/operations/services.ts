import { member } from '../../domain/json-value.ts'
import type { When } from '../../domain/price.ts'
import { isDefault, isNeverMoreExpensive, type Service } from '../../domain/service.ts'
import { warningsHeader } from '../../domain/warning.ts'
import type { UpstreamBody } from './channel-request.ts'
import type { RequestBody } from './request-reader.ts'

/** The members that request a service in any format. Hosts may support members of other formats, so all are checked. */
const MEMBERS = [
  ['service_tier', 'service_tier'],
  ['serviceTier', 'service_tier'],
  ['speed', 'service_tier'],
  ['inference_geo', 'inference_geo'],
] as const satisfies readonly (readonly [name: string, service: Service])[]

/** A requested service other than the default. */
export type ServiceRequest = { readonly name: string; readonly service: Service; readonly value: string }

const NONE: readonly ServiceRequest[] = []

/** The requested services other than the defaults. Most requests have none, and then nothing is allocated. */
export function serviceRequestsIn(body: RequestBody): readonly ServiceRequest[] {
  let serviceRequests: ServiceRequest[] | undefined
  for (const [name, service] of MEMBERS) {
    const field = body[name]
    if (field === undefined || field === null) continue
    // A number is the speed of speech, not a service.
    if (name === 'speed' && typeof field !== 'string') continue
    const value = serviceName(field)
    if (isDefault(service, value)) continue
    serviceRequests ??= []
    serviceRequests.push({ name, service, value })
  }
  return serviceRequests ?? NONE
}

/** The name of a service. An unreadable value becomes a name that has no price. */
function serviceName(field: unknown): string {
  const name = typeof field === 'string' ? field : member(field, 'type')
  return typeof name === 'string' ? name.toLowerCase() : ''
}

const isCheap = ({ service, value }: ServiceRequest) => isNeverMoreExpensive(service, value)

/** The services that decide the price. Of two values for the same service, the more expensive one counts. */
export function servicesIn(serviceRequests: readonly ServiceRequest[]): When {
  const services: { [service in Service]?: string } = {}
  for (const request of [
    ...serviceRequests.filter(request => !isCheap(request)),
    ...serviceRequests.filter(isCheap),
  ])
    services[request.service] ??= request.value
  return services
}

/** The price conditions of the work: its services and the kind of its web search; undefined for a plain request. */
export function priceConditionsOf(
  serviceRequests: readonly ServiceRequest[],
  search: string | undefined,
): When | undefined {
  if (serviceRequests.length === 0 && search === undefined) return undefined
  return { ...servicesIn(serviceRequests), ...(search !== undefined && { web_search: search }) }
}

/** Services that are not requested from a channel, as edits of the body and as a warning. */
export type OmittedServices = {
  readonly edits: Readonly<Record<string, undefined>>
  readonly warnings: string
}

/** The services that may cost more than the default and have no price. They are left out: they could not be billed. */
export function omittedServices(
  serviceRequests: readonly ServiceRequest[],
  granted: When | undefined,
): OmittedServices | undefined {
  if (serviceRequests.length === 0 || granted === undefined) return undefined
  const unpriced = serviceRequests.filter(
    request => request.value !== granted[request.service] && !isCheap(request),
  )
  if (unpriced.length === 0) return undefined
  return {
    edits: Object.fromEntries(unpriced.map(({ name }) => [name, undefined])),
    warnings: warningsHeader(
      unpriced.map(({ name }) => ({
        field: name,
        message: 'selects a service without a price and was left out',
      })),
    ),
  }
}

/** The client's body, with warnings about the members that were removed from it. */
export function withWarnings(
  body: Buffer,
  omitted: OmittedServices | undefined,
  more: readonly string[],
): UpstreamBody {
  if (omitted === undefined && more.length === 0) return { body, isOwnFormat: true }
  return { body, isOwnFormat: true, warnings: [...(omitted ? [omitted.warnings] : []), ...more] }
}
