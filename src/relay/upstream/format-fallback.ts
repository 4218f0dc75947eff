import { formatsFor, withChatFormats } from '../../providers/index.ts'
import { formatOn, type RelayChannel } from '../catalog/catalog.ts'
import type { OperationSpec, Work } from '../operations/operation.ts'
import type { AttemptFailure } from './failure.ts'

/** After this time the gateway tries the missing format again: the server may have been updated. */
const REMEMBERED_MS = 600_000
/** An error about an unknown path is short. */
const INSPECTED_BYTES = 4_096

/** The request's part in the choice of a format. */
export type FormatRequest = {
  readonly spec: OperationSpec
  readonly work: Work
  readonly sentModel: string
}

/**
 * Whether the error reports an unknown path, not an unknown model. Some vendors serve a model at one path only, and name
 * that path in the error.
 */
export function lacksFormat({ answer, status }: AttemptFailure): boolean {
  if (answer === undefined) return false
  if (status === 405) return true
  if (status !== 404) return false
  const message = answer.body.toString('utf8', 0, INSPECTED_BYTES)
  return !/model/i.test(message) || /\bv1\/(chat\/completions|responses|messages)/.test(message)
}

/** The same channel without its current format; undefined: it has no other. */
export function withoutFormat(
  channel: RelayChannel,
  { spec, work, sentModel }: FormatRequest,
): RelayChannel | undefined {
  if (spec.operation !== 'chat') return undefined
  const format = formatOn(channel, spec, sentModel)
  const others = formatsFor(channel.provider, 'chat', sentModel).filter(other => other !== format)
  if (others.length === 0) return undefined
  const narrowed = { ...channel, provider: withChatFormats(channel.provider, others) }
  return formatOn(narrowed, spec, sentModel) && !work.unfit?.(narrowed, sentModel) ? narrowed : undefined
}

/** The channel as it is called first, then without its first format, and so on. */
export function* formatVariants(channel: RelayChannel, request: FormatRequest): Generator<RelayChannel> {
  for (let variant: RelayChannel | undefined = channel; variant; variant = withoutFormat(variant, request))
    yield variant
}

const UNKNOWN_FIELD = new Set([400, 422])

/** Whether the server rejected `stream_options`, which the gateway added. */
function refusesStreamUsage(
  { override }: RelayChannel,
  { answer, status }: AttemptFailure,
  { work }: FormatRequest,
): boolean {
  if (answer === undefined || !UNKNOWN_FIELD.has(status)) return false
  const isAdded = work.isStream && !work.hasStreamOptions && !('stream_options' in override.members)
  return isAdded && answer.body.includes('stream_options')
}

const withoutStreamUsage = (channel: RelayChannel): RelayChannel => ({
  ...channel,
  override: {
    ...channel.override,
    members: { ...channel.override.members, stream_options: undefined },
  },
})

/**
 * The variant of the channel to try after this failure; undefined: none. Many servers that claim to be compatible with a
 * vendor support fewer formats, and some reject unknown fields.
 */
export function nextAttempt(
  channel: RelayChannel,
  failure: AttemptFailure,
  request: FormatRequest,
): RelayChannel | undefined {
  if (refusesStreamUsage(channel, failure, request)) return withoutStreamUsage(channel)
  return lacksFormat(failure) ? withoutFormat(channel, request) : undefined
}

/** The variant of a channel that worked, and the time until which later requests start with it. */
type Variant = { readonly channel: RelayChannel; readonly untilMs: number }

const keyOf = (channel: RelayChannel, { spec, work, sentModel }: FormatRequest) =>
  `${formatOn(channel, spec, sentModel)} ${work.hasStreamOptions === true} ${sentModel}`

/** Remembers the variants of channels that worked. An edited channel is a new object without variants. */
export function createFormatMemory(nowMs: () => number) {
  const variants = new WeakMap<RelayChannel, Map<string, Variant>>()
  return {
    recall(channel: RelayChannel, request: FormatRequest): RelayChannel {
      const variant = variants.get(channel)?.get(keyOf(channel, request))
      if (variant === undefined || variant.untilMs <= nowMs()) return channel
      return request.work.unfit?.(variant.channel, request.sentModel) ? channel : variant.channel
    },
    remember(channel: RelayChannel, request: FormatRequest, variant: RelayChannel): void {
      const ofChannel = variants.get(channel) ?? new Map<string, Variant>()
      variants.set(channel, ofChannel)
      ofChannel.set(keyOf(channel, request), { channel: variant, untilMs: nowMs() + REMEMBERED_MS })
    },
    forget(channel: RelayChannel, request: FormatRequest): void {
      variants.get(channel)?.delete(keyOf(channel, request))
    },
  }
}

export type FormatMemory = ReturnType<typeof createFormatMemory>
