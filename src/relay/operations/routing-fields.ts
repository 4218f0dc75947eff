import { NO_TOOLS } from '../../requests/provider-tools.ts'
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
import type { EncodedWork, ReadContext, Work } from './operation.ts'
import type { RequestBody } from './request-reader.ts'

/** A JSON request as it came. */
type Request = { readonly value: RequestBody; readonly bytes: Buffer; readonly members: readonly Member[] }

type Read<W extends Work> = (
  parsed: Record<string, unknown>,
  bytes: Buffer,
  desk: ReadContext,
  members?: readonly Member[],
) => W

export const allowsRouting = ({ setting }: RelayChannel) => setting.allow_routing_fields === true

/** Whether a body has fields that would choose another model or host. */
export const hasRoutingFields = (members: readonly Member[]): boolean => {
  for (const { key } of members) if (isRoutingField(key)) return true
  return false
}

/** The request without some of its members. */
function without({ value, bytes, members }: Request, isRemoved: (name: string) => boolean) {
  const removed = Object.keys(value).filter(isRemoved)
  const edits = Object.fromEntries(removed.map(name => [name, undefined]))
  const kept = Object.fromEntries(Object.entries(value).filter(([name]) => !isRemoved(name)))
  return { value: kept, bytes: editTopLevel(bytes, edits, members) }
}

function warned(
  dressed: Buffer | EncodedWork,
  removed: readonly string[],
  reread: EncodedWork['boundsOf'],
): EncodedWork {
  const sent = Buffer.isBuffer(dressed) ? { body: dressed, ...(reread && { boundsOf: reread }) } : dressed
  if (removed.length === 0) return sent
  return { ...sent, removed, warnings: [removedWarning(removed), ...(sent.warnings ?? [])] }
}

/**
 * A request with routing fields is read twice: without any of them, as most channels are sent it, and with those that name
 * their models, for channels that let them through. Each channel's answer is read by the work that was sent to it.
 */
export function readRouted<W extends Work>(read: Read<W>, request: Request, desk: ReadContext): W {
  const bare = without(request, isRoutingField)
  const routed = without(request, isUnpricedRouting)
  const removedAll = routingFieldsIn(request.value)
  const removedSome = removedAll.filter(isUnpricedRouting)
  const plainWork = read(bare.value, bare.bytes, desk)
  const routedWork = read(routed.value, routed.bytes, desk)
  const sentTo = new Map<number, W>()
  let latest = plainWork
  const workOf = ({ id }: RelayChannel) => sentTo.get(id) ?? plainWork
  const reread: EncodedWork['boundsOf'] = parsed => {
    const work = read({ ...parsed }, Buffer.from(JSON.stringify(parsed)), desk)
    return { ...work, tools: work.tools ?? NO_TOOLS }
  }

  const { askedOn, toolsOn, unfit, placeholders, counted, estimated, passes } = routedWork
  return {
    ...routedWork,
    namedModels: modelsNamedIn(routed.value),
    dress(channel, sent, limits) {
      const isPassed = allowsRouting(channel) && (limits?.passesRouting(channel) ?? true)
      latest = isPassed ? routedWork : plainWork
      sentTo.set(channel.id, latest)
      return warned(latest.dress(channel, sent, limits), isPassed ? removedSome : removedAll, reread)
    },
    readWhole: (body, channel, more) => workOf(channel).readWhole(body, channel, more),
    meter: (channel, length) => workOf(channel).meter(channel, length),
    ...(toolsOn && { toolsOn: channel => workOf(channel).toolsOn?.(channel) }),
    ...(askedOn && { askedOn: channel => workOf(channel).askedOn?.(channel) }),
    ...(unfit && { unfit: (channel, sent) => plainWork.unfit?.(channel, sent) }),
    ...(placeholders && { placeholders: channel => workOf(channel).placeholders?.(channel) }),
    ...(passes && { passes: (type, channel) => workOf(channel).passes?.(type, channel) ?? false }),
    ...(counted && { counted: tokens => (latest.counted ?? counted)(tokens) }),
    ...(estimated && { estimated: () => (latest.estimated ?? estimated)() }),
  } satisfies Partial<Work> as W
}

/** Fields of a form: they are removed on every channel. */
export function withoutRoutingFields<F extends { readonly fields: readonly (readonly [string, string])[] }>(
  form: F,
): { readonly form: F; readonly removed: readonly string[] } {
  const removed = form.fields
    .filter(([name]) => isRoutingField(name.replace(/\[.*$/s, '')))
    .map(([name]) => name)
  if (removed.length === 0) return { form, removed }
  return { form: { ...form, fields: form.fields.filter(([name]) => !removed.includes(name)) }, removed }
}

/** A work whose client is told what was removed of its request. */
export const reportingRemoved = <W extends Work>(work: W, removed: readonly string[]): W =>
  removed.length === 0
    ? work
    : {
        ...work,
        dress: (...sent: Parameters<Work['dress']>) => warned(work.dress(...sent), removed, undefined),
      }
