import {
  isRoutingField,
  isUnpricedRouting,
  modelsNamedIn,
  removedWarning,
  routingFieldsIn,
} from '../../requests/routing-fields.ts'
import type { Member } from '../../wire/json-edit.ts'
import { editTopLevel } from '../../wire/json-edit.ts'
import type { RelayChannel } from '../catalog/catalog.ts'
import type { ChannelRequest } from './channel-request.ts'
import { changedWork, type ReadContext, type Work } from './operation.ts'
import type { RequestBody } from './request-reader.ts'

/** A JSON request as it was received. */
type Request = { readonly value: RequestBody; readonly bytes: Buffer; readonly members: readonly Member[] }

type Read<W extends Work> = (
  parsed: Record<string, unknown>,
  bytes: Buffer,
  readContext: ReadContext,
  members?: readonly Member[],
) => W

export const allowsRouting = ({ setting }: RelayChannel) => setting.allow_routing_fields === true

/** Whether a body has fields that let the provider choose another model or host. */
export const hasRoutingFields = (members: readonly Member[]): boolean => {
  for (const { key } of members) if (isRoutingField(key)) return true
  return false
}

/** The request without some of its members. */
function without({ value, bytes, members }: Request, isRemoved: (name: string) => boolean) {
  const removed = Object.keys(value).filter(isRemoved)
  const edits = Object.fromEntries(removed.map(name => [name, undefined]))
  const remaining = Object.fromEntries(Object.entries(value).filter(([name]) => !isRemoved(name)))
  return { value: remaining, bytes: editTopLevel(bytes, edits, members) }
}

const warnOfRemoved = (request: ChannelRequest, removed: readonly string[]): ChannelRequest =>
  removed.length === 0
    ? request
    : { ...request, removed, warnings: [removedWarning(removed), ...(request.warnings ?? [])] }

/** Adds a warning about removed fields to the requests of the work. */
const warningRequests =
  (work: Work, removed: readonly string[]): Work['requestFor'] =>
  (channel, sentModel, limits) => {
    const request = work.requestFor(channel, sentModel, limits)
    return request instanceof Promise
      ? request.then(each => warnOfRemoved(each, removed))
      : warnOfRemoved(request, removed)
  }

/**
 * A request with routing fields is read twice: without them for most channels, and with those that name models for
 * channels that allow them.
 */
export function readRouted<W extends Work>(read: Read<W>, request: Request, readContext: ReadContext): W {
  const bare = without(request, isRoutingField)
  const routed = without(request, isUnpricedRouting)
  const removedAll = routingFieldsIn(request.value)
  const removedSome = removedAll.filter(isUnpricedRouting)
  const plainWork = read(bare.value, bare.bytes, readContext)
  const routedWork = read(routed.value, routed.bytes, readContext)
  const plainRequest = warningRequests(plainWork, removedAll)
  const routedRequest = warningRequests(routedWork, removedSome)
  const { unfit } = plainWork
  return changedWork(routedWork, {
    namedModels: modelsNamedIn(routed.value),
    requestFor(channel, sentModel, limits) {
      const passesRouting = allowsRouting(channel) && (limits?.passesRouting(channel) ?? true)
      return (passesRouting ? routedRequest : plainRequest)(channel, sentModel, limits)
    },
    ...(unfit && { unfit: unfit.bind(plainWork) }),
    dispose() {
      plainWork.dispose?.()
      routedWork.dispose?.()
    },
  })
}

/** Removes routing fields from a form, for every channel. */
export function withoutRoutingFields<F extends { readonly fields: readonly (readonly [string, string])[] }>(
  form: F,
): { readonly form: F; readonly removed: readonly string[] } {
  const removed = form.fields
    .filter(([name]) => isRoutingField(name.replace(/\[.*$/s, '')))
    .map(([name]) => name)
  if (removed.length === 0) return { form, removed }
  return { form: { ...form, fields: form.fields.filter(([name]) => !removed.includes(name)) }, removed }
}

/** The work, with a warning to its client about the removed fields. */
export const reportingRemoved = <W extends Work>(work: W, removed: readonly string[]): W =>
  removed.length === 0 ? work : changedWork(work, { requestFor: warningRequests(work, removed) })
