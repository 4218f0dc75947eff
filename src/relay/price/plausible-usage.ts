import { exactOrUndefined } from '../../domain/money.ts'
import { IMPLAUSIBLE_USAGE, type UnresolvedCharge } from '../../domain/settled.ts'
import {
  allTokens,
  type Count,
  type Counts,
  INPUT_COUNTS,
  OUTPUT_COUNTS,
  TOOL_COUNTS,
  totalInput,
  totalOutput,
  type Usage,
} from '../../domain/usage.ts'
import { hasNoHiddenReasoning } from '../../models/generation.ts'
import type { RequestedTools } from '../../requests/provider-tools.ts'
import type { RelayChannel } from '../catalog/catalog.ts'
import type { Work } from '../operations/operation.ts'
import type { RelayRequest } from '../request.ts'

/** The maximum usage that is plausible in a provider's report; Infinity: no limit. */
export type UsageLimits = {
  readonly input: number
  readonly output: number
  /** Reasoning tokens, if the vendor's output limit excludes them; undefined: they are part of `output`. */
  readonly reasoning: number | undefined
  /** The total output of further inferences. */
  readonly furtherOutput: number
  readonly seconds: number
  readonly images: number
  /** The calls of each tool that the provider runs, and the search units of a rerank. */
  readonly toolCalls: number
}

const SLACK_TOKENS = 64

/** Vendors count slightly differently than they limit: up to a tenth more, and a few tokens around an answer. */
const plausible = (limit: number): number => Math.ceil((limit * 11) / 10) + SLACK_TOKENS

/** Tokens that a vendor may add to a prompt: its own instructions and tool results, up to one long context. */
const ADDED_INPUT_TOKENS = 1_000_000
/** The calls of a tool that a vendor may add to the requested ones. */
const ADDED_CALLS = 1_000
/** Images that a vendor may deliver beyond the requested ones: some make several for each requested one. */
const ADDED_IMAGES = 10
/** The maximum output of any model, if a price names no maximum for its model. */
const LONGEST_OUTPUT_TOKENS = 131_072

type LimitedRequest = Pick<RelayRequest, 'work' | 'priced'>
type Changed = Pick<Work, 'inputTokens' | 'outputTokens' | 'tools'>

/** The limits of a request on a channel. `changed`: the request after the channel's overrides. */
export function limitsOf(
  { work, priced }: LimitedRequest,
  channel: RelayChannel,
  changed?: Changed,
): UsageLimits {
  const maximum = priced.modelMaximum(channel)
  const limit = work.outputLimit ? work.outputLimit(maximum) : work.outputTokens(undefined)
  const longest = Math.max(limit ?? 0, maximum ?? LONGEST_OUTPUT_TOKENS)
  const unlimitedReasoning = work.tools && channel.provider.limitsAnswerOnly ? longest : 0
  const { units } = work
  return {
    input: plausible(Math.max(work.inputTokens, changed?.inputTokens ?? 0)) + ADDED_INPUT_TOKENS,
    output:
      limit === undefined
        ? Number.POSITIVE_INFINITY
        : plausible(Math.max(limit, changed?.outputTokens(maximum) ?? 0) + unlimitedReasoning),
    reasoning: channel.provider.usage?.reasoningOutside ? plausible(longest) : undefined,
    furtherOutput: plausible(longest),
    seconds: plausible(work.secondsLimit ?? units?.seconds ?? Number.POSITIVE_INFINITY),
    images: (units?.images ?? 0) + ADDED_IMAGES,
    toolCalls:
      plausible(Math.max(units?.searches ?? 0, requestedCalls(work.tools), requestedCalls(changed?.tools))) +
      ADDED_CALLS,
  }
}

const requestedCalls = (tools: RequestedTools | undefined): number =>
  tools?.maxCalls ?? tools?.list.reduce((sum, { maxCalls }) => sum + maxCalls, 0) ?? 0

/** A model without hidden reasoning cannot have generated more tokens than bytes were delivered. */
export function limitedByDelivery(
  limits: UsageLimits,
  usage: Usage,
  model: string,
  bytes: number,
): UsageLimits {
  const isText = usage.reasoning + usage.audioOutput + usage.imageOutput === 0
  return isText && usage.output > bytes && hasNoHiddenReasoning(model)
    ? { ...limits, output: Math.min(limits.output, plausible(bytes)) }
    : limits
}

const TOOL_KINDS = Object.values(TOOL_COUNTS)
const WITHOUT_REASONING = OUTPUT_COUNTS.filter(kind => kind !== 'reasoning')

const limitedOutput = (usage: Counts, { reasoning }: UsageLimits): number =>
  reasoning === undefined ? totalOutput(usage) : totalOutput(usage) - usage.reasoning

const isWithin = (usage: Usage, limits: UsageLimits): boolean =>
  usage.inferences === undefined &&
  limitedOutput(usage, limits) <= limits.output &&
  usage.reasoning <= (limits.reasoning ?? limits.output) &&
  totalInput(usage) <= limits.input &&
  usage.seconds <= limits.seconds &&
  usage.images <= limits.images &&
  TOOL_KINDS.every(kind => usage[kind] <= limits.toolCalls)

/** Takes counts of these kinds in order until the limit is reached. */
function trimmed(counts: Counts, kinds: readonly Count[], limit: number): Partial<Counts> {
  let remaining = limit
  return Object.fromEntries(
    kinds.map(kind => {
      const count = Math.min(counts[kind], remaining)
      remaining -= count
      return [kind, count]
    }),
  )
}

/** The plausible part of a usage; the same object if all of it is plausible. */
export function plausibleUsage(usage: Usage, limits: UsageLimits): Usage {
  if (isWithin(usage, limits)) return usage
  const { reasoning } = limits
  const kinds = reasoning === undefined ? OUTPUT_COUNTS : WITHOUT_REASONING
  let inputLeft = limits.input
  const trim = (counts: Counts, output: number): Counts => {
    const input = trimmed(counts, INPUT_COUNTS, inputLeft)
    const trimmedCounts = { ...counts, ...input, ...trimmed(counts, kinds, output) }
    inputLeft -= totalInput(trimmedCounts)
    return { ...trimmedCounts, reasoning: Math.min(trimmedCounts.reasoning, reasoning ?? output) }
  }
  const own = trim(usage, limits.output)
  let outputLeft = limits.furtherOutput
  const inferences = usage.inferences?.map(inference => {
    const counts = trim(inference.counts, outputLeft)
    outputLeft -= limitedOutput(counts, limits)
    return { ...inference, counts }
  })
  const possible = {
    ...usage,
    ...own,
    seconds: Math.min(usage.seconds, limits.seconds),
    images: Math.min(usage.images, limits.images),
    ...Object.fromEntries(TOOL_KINDS.map(kind => [kind, Math.min(usage[kind], limits.toolCalls)])),
    ...(inferences && { inferences }),
  }
  return isSame(possible, usage) ? usage : possible
}

const isSame = (one: Usage, other: Usage): boolean =>
  allTokens(one) === allTokens(other) &&
  one.seconds === other.seconds &&
  one.images === other.images &&
  TOOL_KINDS.every(kind => one[kind] === other[kind])

/** The maximum amount of one suspense entry, so that sums of many entries stay exact. */
const MAX_EXCESS_NANOS = 1e14

/** A suspense entry for reported usage beyond the plausible, for Root to decide. */
export function excessSuspense(
  channelId: number,
  charged: number,
  reportedCost: () => number,
): readonly UnresolvedCharge[] {
  const amount = Math.min(
    (exactOrUndefined(reportedCost) ?? Number.MAX_SAFE_INTEGER) - charged,
    MAX_EXCESS_NANOS,
  )
  return amount > 0 ? [{ channelId, amount, reason: IMPLAUSIBLE_USAGE }] : []
}
