import { createRegistry } from '../metrics/registry.ts'
import type { RelayChannel } from '../relay/catalog/catalog.ts'
import type { RequestReport } from '../relay/request.ts'
import { operationName, providerName } from './tracing.ts'

// The boundaries that the conventions recommend.
const DURATION_S = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92]
const FIRST_TOKEN_S = [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10]
const TOKENS = Array.from({ length: 14 }, (_, power) => 4 ** power)

/** Further combinations of channel and model start the cache anew. */
const MAX_CACHED = 2_000

const LABELS = ['gen_ai.operation.name', 'gen_ai.provider.name', 'gen_ai.request.model'] as const

/**
 * The metrics of the GenAI conventions, by model and provider. They are sent by OTLP only: the metrics for Prometheus have no
 * labels of models.
 */
export function createGenAiMetrics(channelOf: (id: number) => Pick<RelayChannel, 'provider'> | undefined) {
  const registry = createRegistry()
  const duration = registry.histogram({
    name: 'gen_ai.client.operation.duration',
    help: 'Time from the request to the end of its response.',
    labels: [...LABELS, 'error.type'],
    buckets: DURATION_S,
  })
  const tokens = registry.histogram({
    name: 'gen_ai.client.token.usage',
    help: 'Input and output tokens of settled requests.',
    labels: [...LABELS, 'gen_ai.token.type'],
    buckets: TOKENS,
  })
  const firstToken = registry.histogram({
    name: 'gen_ai.server.time_to_first_token',
    help: 'Time from the request to the first byte of a streamed answer.',
    labels: LABELS,
    buckets: FIRST_TOKEN_S,
  })

  function seriesOf(operation: string, channelId: number, model: string) {
    const provider = channelOf(channelId)?.provider
    const labels = {
      'gen_ai.operation.name': operationName(operation),
      'gen_ai.provider.name': provider ? providerName(provider) : '',
      'gen_ai.request.model': model,
    }
    return {
      durationAfter: (error: string) => duration({ ...labels, 'error.type': error }),
      duration: duration({ ...labels, 'error.type': '' }),
      input: tokens({ ...labels, 'gen_ai.token.type': 'input' }),
      output: tokens({ ...labels, 'gen_ai.token.type': 'output' }),
      firstToken: firstToken(labels),
    }
  }

  /** Looking up four series by their labels would take longer than counting. */
  const cache = new Map<string, ReturnType<typeof seriesOf>>()

  function cachedSeriesOf(operation: string, channelId: number, model: string) {
    const key = `${operation} ${channelId} ${model}`
    const cached = cache.get(key)
    if (cached) return cached
    if (cache.size >= MAX_CACHED) cache.clear()
    const series = seriesOf(operation, channelId, model)
    cache.set(key, series)
    return series
  }

  return {
    /** Only requests that were sent to a provider: the model of any other may be any text. */
    onRequestEnd({ operation, startedAt, settled, work }: RequestReport): void {
      if (!settled) return
      const { log, channelId } = settled
      const { error_code = '', frt } = log.other as { readonly error_code?: string; readonly frt?: number }
      const series = cachedSeriesOf(operation, channelId, log.model)
      const observed = error_code === '' ? series.duration : series.durationAfter(error_code)
      observed.observe((performance.now() - startedAt) / 1000)
      if (log.promptTokens > 0) series.input.observe(log.promptTokens)
      if (log.completionTokens > 0) series.output.observe(log.completionTokens)
      if (work?.isStream && frt !== undefined) series.firstToken.observe(frt / 1000)
    },
    collect: registry.collect,
  }
}
