import { member } from '../../domain/json-value.ts'
import type { When } from '../../domain/price.ts'
import { isNeverDearer, isUsual, type Service } from '../../domain/service.ts'
import { warningsHeader } from '../../domain/warning.ts'
import type { ChannelBody } from './channel-request.ts'
import type { RequestBody } from './request-reader.ts'

/** How the formats ask for another service than the usual one. Hosts may understand each other's words, so all are looked for. */
const MEMBERS = [
  ['service_tier', 'service_tier'],
  ['serviceTier', 'service_tier'],
  ['speed', 'service_tier'],
  ['inference_geo', 'inference_geo'],
] as const satisfies readonly (readonly [name: string, service: Service])[]

/** A member of a request that asks for another service than the usual one. */
export type Wish = { readonly name: string; readonly service: Service; readonly value: string }

const NONE: readonly Wish[] = []

/** What is asked for beyond the usual; nothing is made where nothing is asked for. */
export function wishesIn(body: RequestBody): readonly Wish[] {
  let wishes: Wish[] | undefined
  for (const [name, service] of MEMBERS) {
    const field = body[name]
    if (field === undefined || field === null) continue
    // As a number it is how fast somebody speaks.
    if (name === 'speed' && typeof field !== 'string') continue
    const value = wordOf(field)
    if (isUsual(service, value)) continue
    wishes ??= []
    wishes.push({ name, service, value })
  }
  return wishes ?? NONE
}

/** A service's name; what cannot be read is one that no price names. */
function wordOf(field: unknown): string {
  const word = typeof field === 'string' ? field : member(field, 'type')
  return typeof word === 'string' ? word.toLowerCase() : ''
}

const isCheap = ({ service, value }: Wish) => isNeverDearer(service, value)

/** What the request is priced by: of two wishes for the same service the dearer one. */
export function servicesIn(wishes: readonly Wish[]): When {
  const services: { [service in Service]?: string } = {}
  for (const wish of [...wishes.filter(wish => !isCheap(wish)), ...wishes.filter(isCheap)])
    services[wish.service] ??= wish.value
  return services
}

/** The same as a part of the work, with the kind of its web search; a plain request has no such part. */
export function asking(wishes: readonly Wish[], search: string | undefined): { readonly asked?: When } {
  if (wishes.length === 0 && search === undefined) return {}
  return { asked: { ...servicesIn(wishes), ...(search !== undefined && { web_search: search }) } }
}

/** Wishes that a channel is not sent, as edits of the body and as words for the client. */
export type OmittedServices = {
  readonly edits: Readonly<Record<string, undefined>>
  readonly warnings: string
}

/** What may cost more than the usual service and has no price: whoever asked for it would not pay for it. */
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
): ChannelBody {
  if (omitted === undefined && more.length === 0) return { body, isOwnFormat: true }
  return { body, isOwnFormat: true, warnings: [...(omitted ? [omitted.warnings] : []), ...more] }
}
