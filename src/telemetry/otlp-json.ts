import type { MetricSnapshot, SeriesSnapshot } from '../metrics/registry.ts'
import { type MetricReport, type TelemetryEncoding, UNITS } from './encoding.ts'
import {
  type AttributeKey,
  type AttributeList,
  CUMULATIVE,
  type Span,
  STATUS_ERROR,
  type TelemetrySource,
} from './span.ts'

/** Whole numbers of 64 bits are texts in the JSON form of protobuf. */
const nanoseconds = (ms: number) => `${Math.round(ms * 1000)}000`

function anyValue({ type }: AttributeKey, value: AttributeList[number] | undefined) {
  if (type === 'string') return { stringValue: value }
  if (type === 'int') return { intValue: String(value) }
  return type === 'double' ? { doubleValue: value } : { boolValue: value }
}

function attributesOf(attributes: AttributeList) {
  const pairs: unknown[] = []
  for (let i = 0; i < attributes.length; i += 2) {
    const key = attributes[i] as AttributeKey
    pairs.push({ key: key.name, value: anyValue(key, attributes[i + 1]) })
  }
  return pairs
}

const spanOf = (span: Span) => ({
  traceId: span.traceId,
  spanId: span.spanId,
  ...(span.traceState !== undefined && { traceState: span.traceState }),
  ...(span.parentSpanId !== undefined && { parentSpanId: span.parentSpanId }),
  name: span.name,
  kind: span.kind,
  startTimeUnixNano: nanoseconds(span.startMs),
  endTimeUnixNano: nanoseconds(span.endMs),
  attributes: attributesOf(span.shared ? [...span.shared, ...span.attributes] : span.attributes),
  ...(span.error !== undefined && { status: { message: span.error, code: STATUS_ERROR } }),
})

type Times = Pick<MetricReport, 'startMs' | 'nowMs'>

/** As in Prometheus, an empty label is an absent one. */
const labelsOf = (names: readonly string[], labels: readonly string[]) =>
  names
    .map((key, index) => ({ key, value: { stringValue: labels[index] ?? '' } }))
    .filter(({ value }) => value.stringValue !== '')

const pointOf = ({ labelNames }: MetricSnapshot, { labels }: SeriesSnapshot, { startMs, nowMs }: Times) => ({
  attributes: labelsOf(labelNames, labels),
  startTimeUnixNano: nanoseconds(startMs),
  timeUnixNano: nanoseconds(nowMs),
})

function histogramOf(metric: MetricSnapshot, series: SeriesSnapshot, times: Times) {
  const counts = series.values.slice(0, -1)
  return {
    ...pointOf(metric, series, times),
    count: String(counts.reduce((sum, count) => sum + count, 0)),
    sum: series.values.at(-1) ?? 0,
    bucketCounts: counts.map(String),
    explicitBounds: metric.buckets ?? [],
  }
}

function dataOf(metric: MetricSnapshot, times: Times) {
  const { kind, series } = metric
  if (kind === 'histogram') {
    const dataPoints = series.map(one => histogramOf(metric, one, times))
    return { histogram: { dataPoints, aggregationTemporality: CUMULATIVE } }
  }
  const dataPoints = series.map(one => ({ ...pointOf(metric, one, times), asDouble: one.values[0] ?? 0 }))
  return kind === 'gauge'
    ? { gauge: { dataPoints } }
    : { sum: { dataPoints, aggregationTemporality: CUMULATIVE, isMonotonic: true } }
}

const metricOf = (metric: MetricSnapshot, times: Times) => ({
  name: metric.name,
  description: metric.help,
  unit: UNITS.get(metric.name) ?? '',
  ...dataOf(metric, times),
})

/** OTLP/HTTP with JSON. It costs more CPU time than protobuf. */
export function createJsonEncoding({ resource, scope }: TelemetrySource): TelemetryEncoding {
  const sender = { attributes: attributesOf(resource) }
  const head = `{"resourceSpans":[{"resource":${JSON.stringify(sender)},"scopeSpans":[{"scope":${JSON.stringify(scope)},"spans":[`
  return {
    contentType: 'application/json',
    openBatch() {
      let spans: string[] = []
      let bytes = 0
      return {
        add(span: Span) {
          const json = JSON.stringify(spanOf(span))
          spans.push(json)
          bytes += json.length
        },
        count: () => spans.length,
        bytes: () => bytes,
        take() {
          const items = spans.join(',')
          spans = []
          bytes = 0
          return Buffer.from(`${head}${items}]}]}]}`)
        },
      }
    },
    metrics({ metrics, ...times }) {
      const present = metrics.filter(({ series }) => series.length > 0)
      const scopeMetrics = [{ scope, metrics: present.map(metric => metricOf(metric, times)) }]
      return Buffer.from(JSON.stringify({ resourceMetrics: [{ resource: sender, scopeMetrics }] }))
    },
  }
}
