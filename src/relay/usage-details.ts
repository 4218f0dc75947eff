import type { When } from '../domain/price.ts'
import type { VideoNote } from '../domain/settled.ts'
import {
  allCounts,
  type Counts,
  type Inference,
  totalInput,
  totalOutput,
  type Usage,
} from '../domain/usage.ts'
import type { CatalogPrice, RelayChannel } from './catalog/catalog.ts'
import type { ChannelRequest } from './operations/channel-request.ts'
import type { RequestPrice } from './price/price.ts'
import type { CountedUsage } from './price/usage-count.ts'
import type { RelayRequest, Trace } from './request.ts'

/** The source of the token counts in a settlement. */
type Source = 'provider' | 'counted' | 'input_only' | 'zero'

/** The usage that settles a request, with its explanation. */
export type SettledUsage = {
  readonly channel: RelayChannel
  readonly usage: Usage
  /** The usage that the provider reported, if a part of it is implausible and not in `usage`. */
  readonly reported?: Usage | undefined
  /** The properties of a generated image, if the answer reports them. */
  readonly imageProperties?: When | undefined
  readonly source: Source
  /** How the gateway counted the tokens, if the provider did not report them. */
  readonly countedBy?: CountedUsage['by'] | undefined
  readonly trace: Trace
  /** Classifies failed requests: the gateway's code, or `upstream_400` if the client got the provider's error. */
  readonly errorCode?: string | undefined
  readonly firstByteMs?: number
  readonly video?: VideoNote
  /** The request that was sent to the channel, if any. */
  readonly outgoing?: Pick<ChannelRequest, 'services' | 'tools' | 'warnings'> | undefined
}

/** The price conditions beside usage: the services that were sent, and the image that was delivered. */
export function servedConditions(
  { work }: Pick<RelayRequest, 'work'>,
  settled: Pick<SettledUsage, 'outgoing' | 'imageProperties'>,
): When | undefined {
  const services = settled.outgoing?.services ?? work.priceConditions
  return settled.imageProperties ? { ...services, ...settled.imageProperties } : services
}

/** The JSON column of a usage row: details that have no column of their own. Empty details are left out. */
export function usageDetails(
  request: RelayRequest,
  settled: Omit<SettledUsage, 'usage'>,
  usage: Usage,
  price: CatalogPrice | undefined,
): Record<string, unknown> {
  const { route, work, priced } = request
  const { channel, source, countedBy, firstByteMs, reported, trace, video, errorCode } = settled
  const isPriced = price?.version !== 'unpriced'
  // One literal: V8 stores fields that are added later outside of the object, and serializes them more slowly. JSON omits
  // what is undefined.
  const details: Record<string, unknown> = {
    source,
    counted_by: countedBy,
    frt: firstByteMs,
    error_code: errorCode,
    unpriced: isPriced ? undefined : true,
    price: isPriced ? price?.version : undefined,
    priced_as: isPriced ? price?.model : undefined,
  }
  // The price conditions beside tokens, so that the cost can be itemized later.
  if (isPriced && price?.price.variants)
    details.priced_for = priced.pricedFor(channel, servedConditions(request, settled))
  if (isPriced && price?.price.rates.per_call !== undefined && usage.calls > 0) details.calls = usage.calls
  if (route.model !== work.model) details.upstream_model_name = route.model
  if (route.canaries !== undefined) details.canary = route.canaries
  if (video) details.video_id = video.id
  if (work.tags) details.tags = work.tags
  if (settled.outgoing?.warnings?.length) details.warnings = settled.outgoing.warnings
  if (!hasOnlyText(usage)) addCounts(details, usage)
  if (reported) details.reported = reportedFields(reported)
  if (usage.inferences) details.inferences = usage.inferences.map(each => inferenceFields(each, priced))
  if (usage.vendorCost !== undefined) details.vendor_cost = usage.vendorCost
  if (!isPlain(trace))
    details.trace = { attempts: trace.attempts, passed_over: trace.passedOver.slice(0, 20) }
  return details
}

/** Whether none of `DETAILS` is above 0. Summing them takes a tenth of reading each by its function. */
const hasOnlyText = (usage: Counts): boolean =>
  usage.cachedInput +
    usage.cacheWrite +
    usage.cacheWrite1h +
    usage.reasoning +
    usage.audioInput +
    usage.audioOutput +
    usage.imageInput +
    usage.imageOutput +
    usage.characters +
    usage.seconds +
    usage.images +
    usage.searches +
    usage.fileSearches +
    usage.codeInterpreterCalls +
    usage.imageGenerationCalls ===
  0

/** Whether the first attempt was answered: the columns of the row describe it. */
const isPlain = ({ attempts, failures, passedOver }: Trace) =>
  attempts.length <= 1 &&
  failures.length === 0 &&
  passedOver.length === 0 &&
  attempts.every(({ status }) => typeof status === 'number')

/** The usage that the provider reported, if the gateway charged a different one. */
function reportedFields(reported: Usage): Record<string, number> {
  const counts = allCounts(reported)
  const { seconds, searches, fileSearches, codeInterpreterCalls, imageGenerationCalls } = counts
  return {
    prompt_tokens: totalInput(counts),
    completion_tokens: totalOutput(counts),
    ...(seconds > 0 && { seconds }),
    ...(searches > 0 && { searches }),
    ...(fileSearches > 0 && { file_searches: fileSearches }),
    ...(codeInterpreterCalls > 0 && { code_interpreter_calls: codeInterpreterCalls }),
    ...(imageGenerationCalls > 0 && { image_generation_calls: imageGenerationCalls }),
  }
}

/** A further inference of the provider: its tokens, and the price of its model. */
function inferenceFields({ counts, model }: Inference, priced: RequestPrice): Record<string, unknown> {
  const price = model === undefined ? undefined : priced.priceOfModel(model)
  const fields: Record<string, unknown> = {
    prompt_tokens: totalInput(counts),
    completion_tokens: totalOutput(counts),
    ...(model !== undefined && { model }),
    ...(price && { price: price.version, priced_as: price.model }),
  }
  addCounts(fields, counts)
  return fields
}

/** Counts other than plain tokens. */
const DETAILS: readonly { readonly name: string; readonly count: (usage: Counts) => number }[] = [
  { name: 'cache_tokens', count: usage => usage.cachedInput },
  { name: 'cache_write_tokens', count: usage => usage.cacheWrite + usage.cacheWrite1h },
  { name: 'cache_write_1h_tokens', count: usage => usage.cacheWrite1h },
  { name: 'reasoning_tokens', count: usage => usage.reasoning },
  { name: 'audio_input', count: usage => usage.audioInput },
  { name: 'audio_output', count: usage => usage.audioOutput },
  { name: 'image', count: usage => usage.imageInput },
  { name: 'image_output', count: usage => usage.imageOutput },
  { name: 'characters', count: usage => usage.characters },
  { name: 'seconds', count: usage => usage.seconds },
  { name: 'images', count: usage => usage.images },
  { name: 'searches', count: usage => usage.searches },
  { name: 'file_searches', count: usage => usage.fileSearches },
  { name: 'code_interpreter_calls', count: usage => usage.codeInterpreterCalls },
  { name: 'image_generation_calls', count: usage => usage.imageGenerationCalls },
]

function addCounts(fields: Record<string, unknown>, counts: Counts): void {
  // Not pairs of name and function: taking them apart allocated 3 KB for each request.
  for (const detail of DETAILS) {
    const value = detail.count(counts)
    if (value > 0) fields[detail.name] = value
  }
}
