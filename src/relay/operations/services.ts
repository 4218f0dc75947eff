import { member } from '../../domain/json-value.ts'
import type { When } from '../../domain/price.ts'
import { isDefault, isNeverMoreExpensive, type Service } from '../../domain/service.ts'
import { warningsHeader } from '../../domain/warning.ts'
import type { UpstreamBody } from './channel-request.ts'
import type { RequestBody } from './request-reader.ts'

/** The members by which formats ask for a service. Hosts may understand each other's members, so all are looked for. */
const MEMBERS = [
  ['service_tier', 'service_tier'],
  ['serviceTier', 'service_tier'],
  ['speed', 'service_tier'],
  ['inference_geo', 'inference_geo'],
] as const satisfies readonly (readonly [name: string, service: Service])[]

/** A member of a request that asks for another service than the usual one. */
export type Wish = { readonly name: string; readonly service: Service; readonly value: string }

const NONE: readonly Wish[] = []

/** The requested services other than the usual ones. A plain request allocates nothing. */
export function wishesIn(body: RequestBody): readonly Wish[] {
  let wishes: Wish[] | undefined
  for (const [name, service] of MEMBERS) {
    const field = body[name]
    if (field === undefined || field === null) continue
    // A number is the speed of speech.
    if (name === 'speed' && typeof field !== 'string') continue
    const value = wordOf(field)
    if (isDefault(service, value)) continue
    wishes ??= []
    wishes.push({ name, service, value })
  }
  return wishes ?? NONE
}

/** A service's name; an unreadable value becomes a name that no price has. */
function wordOf(field: unknown): string {
  const word = typeof field === 'string' ? field : member(field, 'type')
  return typeof word === 'string' ? word.toLowerCase() : ''
}

const isCheap = ({ service, value }: Wish) => isNeverMoreExpensive(service, value)

/** The services that decide the price: of two values for the same service the dearer one. */
export function servicesIn(wishes: readonly Wish[]): When {
  const services: { [service in Service]?: string } = {}
  for (const wish of [...wishes.filter(wish => !isCheap(wish)), ...wishes.filter(isCheap)])
    services[wish.service] ??= wish.value
  return services
}

/** The same as a part of the work, with the kind of its web search; absent for a plain request. */
export function asking(wishes: readonly Wish[], search: string | undefined): { readonly asked?: When } {
  if (wishes.length === 0 && search === undefined) return {}
  return { asked: { ...servicesIn(wishes), ...(search !== undefined && { web_search: search }) } }
}

/** Services that a channel is not asked for, as edits of the body and as a warning. */
export type OmittedServices = {
  readonly edits: Readonly<Record<string, undefined>>
  readonly warnings: string
}

/** Services that may cost more than the usual one and have no price: the client would not pay for them. */
export function omittedServices(
  wishes: readonly Wish[],
  granted: When | undefined,
): OmittedServices | undefined {
  if (wishes.length === 0 || granted === undefined) return undefined
  const unpriced = wishes.filter(wish => wish.value !== granted[wish.service] && !isCheap(wish))
  if (unpriced.length === 0) return undefined
  return {
    edits: Object.fromEntries(unpriced.map(({ name }) => [name, undefined])),
    warnings: warningsHeader(
      unpriced.map(({ name }) => ({ field: name, message: 'asks for what has no price, and was left out' })),
    ),
  }
}

/** The client's body with the warnings about what was left out of it. */
export function withWarnings(
  body: Buffer,
  omitted: OmittedServices | undefined,
  more: readonly string[],
): UpstreamBody {
  if (omitted === undefined && more.length === 0) return { body, isOwnFormat: true }
  return { body, isOwnFormat: true, warnings: [...(omitted ? [omitted.warnings] : []), ...more] }
}
