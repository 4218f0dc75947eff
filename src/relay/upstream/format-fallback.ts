import { formatsFor, speakingOnly } from '../../providers/index.ts'
import type { PlanStep } from '../../routing/plan.ts'
import { formatOn, type RelayChannel } from '../catalog/catalog.ts'
import type { RelayRequest } from '../request.ts'
import type { AttemptFailure } from './failure.ts'

/** What a server did not have is asked of it again after so long: it may have been brought up to date. */
const REMEMBERED_MS = 600_000
/** An answer that says no more than that nothing is there is short. */
const LOOKED_AT_BYTES = 4_096

type Asked = Pick<RelayRequest, 'spec' | 'work'>

/** What is known of a channel is known of it when it is asked this. */
const nameOf = (channel: RelayChannel, { spec, work }: Asked, sent: string) =>
  `${formatOn(channel, spec, sent)} ${work.hasStreamOptions === true} ${sent}`

/** A channel as it was found to be, and until when that is believed. */
type Found = { readonly channel: RelayChannel; readonly untilMs: number }

/**
 * Whether a server says that it has no such path, rather than no such model. Some vendors have models that are asked at
 * one path only, and name it.
 */
function isLacking(failure: AttemptFailure | undefined, channel: RelayChannel): boolean {
  if (failure?.channel !== channel || failure.answer === undefined) return false
  if (failure.status === 405) return true
  if (failure.status !== 404) return false
  const words = failure.answer.body.toString('utf8', 0, LOOKED_AT_BYTES)
  return !/model/i.test(words) || /\bv1\/(chat\/completions|responses|messages)/.test(words)
}

/** The same channel without the format it is asked in; undefined where it can be asked in no other. */
function without(channel: RelayChannel, { spec, work }: Asked, sent: string): RelayChannel | undefined {
  if (spec.operation !== 'chat') return undefined
  const format = formatOn(channel, spec, sent)
  const others = formatsFor(channel.provider, 'chat', sent).filter(other => other !== format)
  if (others.length === 0) return undefined
  const narrowed = { ...channel, provider: speakingOnly(channel.provider, others) }
  return formatOn(narrowed, spec, sent) && !work.unfit?.(narrowed, sent) ? narrowed : undefined
}

const UNKNOWN_FIELD = new Set([400, 422])

/**
 * The same channel, no longer asked for the usage of its streams: some hosts refuse what they do not know, although the
 * client never said it. Undefined where that was not the trouble.
 */
function unasked(failure: AttemptFailure | undefined, { work }: Asked): RelayChannel | undefined {
  if (failure?.answer === undefined || !UNKNOWN_FIELD.has(failure.status)) return undefined
  const { channel, answer } = failure
  const { override } = channel
  const isOurs = work.isStream && !work.hasStreamOptions && !('stream_options' in override.members)
  if (!isOurs || !answer.body.includes('stream_options')) return undefined
  return {
    ...channel,
    override: { ...override, members: { ...override.members, stream_options: undefined } },
  }
}

type Walking = {
  readonly steps: Iterable<PlanStep<RelayChannel>>
  readonly asked: Asked
  /** Those of the attempts so far; whoever walks adds the next before taking another step. */
  readonly failures: AttemptFailure[]
  nowMs(): number
}

/**
 * Many servers that are compatible with a vendor have fewer formats than the vendor. One that lacks the format it was
 * asked in is asked in the next that its provider's file lists, which counts for later requests too. A channel that was
 * changed is a new object here, and known nothing of. So it is with one that cannot be asked for the usage of its streams.
 */
export function createFormatFallback() {
  const known = new WeakMap<RelayChannel, Map<string, Found>>()

  /** The channel as it was found to be. */
  function asFound(channel: RelayChannel, { spec, work }: Asked, sent: string, nowMs: number): RelayChannel {
    const found = known.get(channel)?.get(nameOf(channel, { spec, work }, sent))
    return found && found.untilMs > nowMs && !work.unfit?.(found.channel, sent) ? found.channel : channel
  }

  function remember(channel: RelayChannel, asked: Asked, sent: string, found: Found): () => void {
    const book = known.get(channel) ?? new Map<string, Found>()
    known.set(channel, book)
    const name = nameOf(channel, asked, sent)
    book.set(name, found)
    return () => book.delete(name)
  }

  return {
    *walk({ steps, asked, failures, nowMs }: Walking): Generator<PlanStep<RelayChannel>, void, undefined> {
      for (const step of steps) {
        const { channel, sentModel } = step
        let first = asFound(channel, asked, sentModel, nowMs())
        yield first === channel ? step : { ...step, channel: first }
        const silent = unasked(failures.at(-1), asked)
        if (silent && failures.at(-1)?.channel === first) {
          remember(channel, asked, sentModel, { channel: silent, untilMs: nowMs() + REMEMBERED_MS })
          failures.pop()
          first = silent
          yield { ...step, channel: first }
        }
        if (!isLacking(failures.at(-1), first)) continue
        let other = without(first, asked, sentModel)
        while (other) {
          const forget = remember(channel, asked, sentModel, {
            channel: other,
            untilMs: nowMs() + REMEMBERED_MS,
          })
          yield { ...step, channel: other }
          // Whatever else it says, it has this one; whoever was answered does not come back here.
          if (!isLacking(failures.at(-1), other)) break
          forget()
          // That the other is not there either is no news: what was said first is told.
          failures.pop()
          other = without(other, asked, sentModel)
        }
      }
    },
    /** Whether the walk goes on with the same channel although its answer would be final. */
    hasOther: (failure: AttemptFailure, asked: Asked, sent: string): boolean =>
      unasked(failure, asked) !== undefined ||
      (isLacking(failure, failure.channel) && without(failure.channel, asked, sent) !== undefined),
  }
}
