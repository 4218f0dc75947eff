import { formatsFor, speakingOnly } from '../providers/index.ts'
import type { Step } from '../routing/plan.ts'
import { unfitOn } from './admit.ts'
import { formatOn, type RelayChannel } from './catalog.ts'
import type { Errand } from './errand.ts'
import type { AttemptFailure } from './failure.ts'

/** What a server did not have is asked of it again after so long: it may have been brought up to date. */
const REMEMBERED_MS = 600_000
/** An answer that says no more than that nothing is there is short. */
const LOOKED_AT_BYTES = 4_096

type Asked = Pick<Errand, 'spec' | 'work'>

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
  return formatOn(narrowed, spec, sent) && !unfitOn(work, narrowed, sent) ? narrowed : undefined
}

type Walking = {
  readonly steps: Iterable<Step<RelayChannel>>
  readonly asked: Asked
  /** Those of the attempts so far; whoever walks adds the next before taking another step. */
  readonly failures: AttemptFailure[]
  nowMs(): number
}

/**
 * Many servers that are compatible with a vendor have fewer formats than the vendor. One that lacks the format it was
 * asked in is asked in the next that its provider's file lists, which counts for later requests too. A channel that was
 * changed is a new object here, and known nothing of.
 */
export function createSpoken() {
  const known = new WeakMap<RelayChannel, Map<string, { channel: RelayChannel; untilMs: number }>>()

  /** The channel as it was found to be. */
  function asFound(channel: RelayChannel, { spec, work }: Asked, sent: string, nowMs: number): RelayChannel {
    const found = known.get(channel)?.get(`${formatOn(channel, spec, sent)} ${sent}`)
    return found && found.untilMs > nowMs && !unfitOn(work, found.channel, sent) ? found.channel : channel
  }

  return {
    *walk({ steps, asked, failures, nowMs }: Walking): Generator<Step<RelayChannel>, void, undefined> {
      for (const step of steps) {
        const { channel, sentModel } = step
        const first = asFound(channel, asked, sentModel, nowMs())
        yield first === channel ? step : { ...step, channel: first }
        if (!isLacking(failures.at(-1), first)) continue
        let other = without(first, asked, sentModel)
        while (other) {
          const book = known.get(channel) ?? new Map()
          known.set(channel, book)
          const name = `${formatOn(channel, asked.spec, sentModel)} ${sentModel}`
          book.set(name, { channel: other, untilMs: nowMs() + REMEMBERED_MS })
          yield { ...step, channel: other }
          // Whatever else it says, it has this one; whoever was answered does not come back here.
          if (!isLacking(failures.at(-1), other)) break
          book.delete(name)
          // That the other is not there either is no news: what was said first is told.
          failures.pop()
          other = without(other, asked, sentModel)
        }
      }
    },
    /** Whether the walk goes on with the same channel although its answer would be final. */
    hasOther: (failure: AttemptFailure, asked: Asked, sent: string): boolean =>
      isLacking(failure, failure.channel) && without(failure.channel, asked, sent) !== undefined,
  }
}
