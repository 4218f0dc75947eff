import { hostname } from 'node:os'
import type { Logger } from 'pino'
import { version } from '../host/version.ts'
import type { Network } from '../http/network.ts'
import type { RelayChannel } from '../relay/catalog/catalog.ts'
import { createBatchExport } from '../telemetry/batch-export.ts'
import type { TelemetryEncoding } from '../telemetry/encoding.ts'
import { CONNECT_TIMEOUT_MS, createHttpDelivery, type HttpTarget } from '../telemetry/http-delivery.ts'
import { createJsonEncoding } from '../telemetry/otlp-json.ts'
import { createProtobufEncoding } from '../telemetry/otlp-protobuf.ts'
import { type AttributeList, attributeKey } from '../telemetry/span.ts'
import type { Sampler } from '../telemetry/trace-context.ts'
import type { Config } from './config.ts'
import { createGenAiMetrics } from './gen-ai-metrics.ts'
import type { Metrics } from './metrics.ts'
import { createOutageLog } from './outage-log.ts'
import { createTracing, type Tracing } from './tracing.ts'

/** How long a stop waits for the last export. */
const CLOSE_TIMEOUT_MS = 5_000

/** An endpoint for all signals is completed by the signal's path; one of a single signal is complete. */
function targetOf(
  config: Config,
  network: Pick<Network, 'connector'>,
  signal: 'traces' | 'metrics',
): HttpTarget | undefined {
  const isTraces = signal === 'traces'
  if ((isTraces ? config.otelTraces : config.otelMetrics) === 'none') return undefined
  const base = config.otlpEndpoint?.replace(/\/+$/, '')
  const own = isTraces ? config.otlpTracesEndpoint : config.otlpMetricsEndpoint
  const url = own ?? (base === undefined ? undefined : `${base}/v1/${signal}`)
  if (url === undefined) return undefined
  return {
    url,
    headers: (isTraces ? config.otlpTracesHeaders : config.otlpMetricsHeaders) ?? config.otlpHeaders,
    timeoutMs: config.otlpTimeoutMs,
    isCompressed: config.otlpCompression === 'gzip',
    // The operator may run the receiver anywhere.
    connect: network.connector({ timeoutMs: CONNECT_TIMEOUT_MS, isUnchecked: true }),
  }
}

function samplerOf({ otelSampler, otelSamplerArg }: Config): Sampler {
  const isParentBased = otelSampler.startsWith('parentbased_')
  const ratio = otelSampler.endsWith('ratio') ? otelSamplerArg : otelSampler.endsWith('on') ? 1 : 0
  return { isParentBased, ratio }
}

/** The attributes of this process. Each worker is an instance, because each has counters of its own. */
function resourceOf({ otelServiceName, otelResource }: Config, nodeId: string): AttributeList {
  const attributes = {
    'host.name': hostname(),
    'service.name': 'sluice',
    'service.version': version,
    'service.instance.id': nodeId,
    ...otelResource,
    ...(otelServiceName !== undefined && { 'service.name': otelServiceName }),
  }
  return Object.entries(attributes).flatMap(([name, value]) => [attributeKey(name), value])
}

type TelemetryDeps = {
  readonly config: Config
  readonly network: Pick<Network, 'connector'>
  readonly log: Logger
  readonly metrics: Pick<Metrics, 'collect' | 'onTelemetryDropped'>
  readonly nodeId: string
  channelOf(id: number): Pick<RelayChannel, 'provider'> | undefined
}

type SignalDeps = TelemetryDeps & { readonly encoding: TelemetryEncoding }

function exportTraces({ config, log, metrics, encoding }: SignalDeps, target: HttpTarget) {
  const delivery = createHttpDelivery(target, encoding.contentType)
  const spans = createBatchExport({
    batch: encoding.openBatch(),
    deliver: delivery.deliver,
    onOutcome: createOutageLog(log, { signal: 'traces', receiver: new URL(target.url).origin }),
    onDrop: (count, reason) => metrics.onTelemetryDropped('traces', reason, count),
    random: Math.random,
  })
  return {
    ...createTracing(samplerOf(config), spans.add),
    async close(): Promise<void> {
      await spans.close(CLOSE_TIMEOUT_MS)
      await delivery.close()
    },
  }
}

function exportMetrics({ config, log, metrics, encoding, channelOf }: SignalDeps, target: HttpTarget) {
  const delivery = createHttpDelivery(target, encoding.contentType)
  const onOutcome = createOutageLog(log, { signal: 'metrics', receiver: new URL(target.url).origin })
  const genAi = createGenAiMetrics(channelOf)
  const startMs = Date.now()
  let running: Promise<void> | undefined

  // A failed report is not retried: the next one has the same totals.
  async function report(): Promise<void> {
    const collected = await Promise.all([metrics.collect(), genAi.collect()])
    const body = encoding.metrics({ metrics: collected.flat(), startMs, nowMs: Date.now() })
    const outcome = await delivery.deliver(body)
    onOutcome(outcome.kind === 'delivered' ? undefined : outcome.reason)
    if (outcome.kind !== 'delivered') metrics.onTelemetryDropped('metrics', outcome.kind, 1)
  }

  function reportOnce(): Promise<void> {
    running ??= report().finally(() => {
      running = undefined
    })
    return running
  }

  const timer = setInterval(() => void reportOnce(), config.otelMetricIntervalMs).unref()
  return {
    onRequestEnd: genAi.onRequestEnd,
    async close(): Promise<void> {
      clearInterval(timer)
      const deadline = setTimeout(() => void delivery.close(), CLOSE_TIMEOUT_MS)
      await running
      await reportOnce()
      clearTimeout(deadline)
      await delivery.close()
    },
  }
}

/** Sends traces and metrics by OTLP/HTTP (docs/reference/tracing.md: Settings). Without a receiver, it does nothing. */
export function createTelemetry(deps: TelemetryDeps) {
  const { config, nodeId } = deps
  const source = { resource: resourceOf(config, nodeId), scope: { name: 'sluice', version } }
  const encoding =
    config.otlpProtocol === 'http/json' ? createJsonEncoding(source) : createProtobufEncoding(source)
  const tracesTarget = targetOf(config, deps.network, 'traces')
  const metricsTarget = targetOf(config, deps.network, 'metrics')
  const traces = tracesTarget && exportTraces({ ...deps, encoding }, tracesTarget)
  const metrics = metricsTarget && exportMetrics({ ...deps, encoding }, metricsTarget)
  const onRequestEnd = (...ended: Parameters<Tracing['onRequestEnd']>): void => {
    metrics?.onRequestEnd(ended[0])
    traces?.onRequestEnd(...ended)
  }
  return {
    startSpan: traces?.startSpan,
    onRequestEnd: traces || metrics ? onRequestEnd : undefined,
    async close(): Promise<void> {
      await Promise.all([traces?.close(), metrics?.close()])
    },
  }
}
