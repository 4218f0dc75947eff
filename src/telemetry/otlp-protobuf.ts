import type { MetricSnapshot, SeriesSnapshot } from '../metrics/registry.ts'
import { type MetricReport, type TelemetryEncoding, UNITS } from './encoding.ts'
import {
  begin,
  beginLong,
  delimited,
  end,
  endLong,
  fixed64Field,
  lengthField,
  MAX_UTF8_BYTES,
  openProtobuf,
  type ProtobufBytes,
  putVarint,
  readProtobuf,
  reserve,
  takeProtobuf,
  varintField,
  writeDouble,
  writeFixed64,
  writeHex,
  writeInteger,
  writeNanoseconds,
  writeRaw,
  writeText,
} from './protobuf.ts'
import {
  type AttributeKey,
  type AttributeList,
  type AttributeValue,
  CUMULATIVE,
  type Span,
  STATUS_ERROR,
  type TelemetrySource,
} from './span.ts'

// The fields of the messages of opentelemetry-proto 1.x that the gateway sends.
const REQUEST = { resource: lengthField(1) }
const RESOURCE_SIGNALS = { resource: lengthField(1), scope: lengthField(2) }
const RESOURCE = { attributes: lengthField(1) }
const SCOPE_SIGNALS = { scope: lengthField(1), items: lengthField(2) }
const SCOPE = { name: lengthField(1), version: lengthField(2) }
const KEY_VALUE = { key: lengthField(1), value: lengthField(2) }
const VALUE = {
  string: lengthField(1),
  bool: varintField(2),
  int: varintField(3),
  double: fixed64Field(4),
}
const SPAN = {
  traceId: lengthField(1),
  spanId: lengthField(2),
  traceState: lengthField(3),
  parentSpanId: lengthField(4),
  name: lengthField(5),
  kind: varintField(6),
  start: fixed64Field(7),
  end: fixed64Field(8),
  attributes: lengthField(9),
  status: lengthField(15),
}
const STATUS = { message: lengthField(2), code: varintField(3) }
const METRIC = {
  name: lengthField(1),
  description: lengthField(2),
  unit: lengthField(3),
  gauge: lengthField(5),
  sum: lengthField(7),
  histogram: lengthField(9),
}
const DATA = { points: lengthField(1), temporality: varintField(2), isMonotonic: varintField(3) }
const NUMBER = {
  start: fixed64Field(2),
  time: fixed64Field(3),
  double: fixed64Field(4),
  attributes: lengthField(7),
}
const HISTOGRAM = {
  start: fixed64Field(2),
  time: fixed64Field(3),
  count: fixed64Field(4),
  sum: fixed64Field(5),
  counts: lengthField(6),
  bounds: lengthField(7),
  attributes: lengthField(9),
}

/** A message with a key and a value of together fewer bytes has a length of one byte. */
const MAX_SHORT_BYTES = 110
/** The other bytes of an attribute: fields, lengths and a number. */
const OTHER_BYTES = 24

/** Almost every attribute is short, and a request has thirty: such a one is written in one pass. */
function writeShort(out: ProtobufBytes, field: number, key: AttributeKey, value: AttributeValue): void {
  reserve(out, MAX_SHORT_BYTES + OTHER_BYTES)
  const { bytes, at } = out
  const { type } = key
  const keyLength = key.bytes.length
  const valueAt = at + 4 + keyLength
  const start = valueAt + 2
  bytes[at] = field
  bytes[at + 2] = KEY_VALUE.key
  bytes[at + 3] = keyLength
  bytes.set(key.bytes, at + 4)
  bytes[valueAt] = KEY_VALUE.value
  bytes[start] = VALUE[type]
  let after: number
  if (type === 'string') {
    const length = bytes.write(value as string, start + 2)
    bytes[start + 1] = length
    after = start + 2 + length
  } else if (type === 'double') after = bytes.writeDoubleLE(value as number, start + 1)
  else after = putVarint(bytes, start + 1, Number(value))
  bytes[valueAt + 1] = after - start
  bytes[at + 1] = after - at - 2
  out.at = after
}

function writeLong(out: ProtobufBytes, field: number, { name }: AttributeKey, value: string): void {
  delimited(out, field, () => {
    writeText(out, KEY_VALUE.key, name)
    delimited(out, KEY_VALUE.value, () => writeText(out, VALUE.string, value))
  })
}

function writeAttributes(out: ProtobufBytes, field: number, attributes: AttributeList): void {
  for (let i = 0; i < attributes.length; i += 2) {
    const key = attributes[i] as AttributeKey
    const value = attributes[i + 1] as AttributeValue
    const valueBytes = typeof value === 'string' ? value.length * MAX_UTF8_BYTES : 0
    if (key.bytes.length + valueBytes <= MAX_SHORT_BYTES) writeShort(out, field, key, value)
    else writeLong(out, field, key, String(value))
  }
}

function writeNameAndKind(out: ProtobufBytes, { name, kind }: Span): void {
  writeText(out, SPAN.name, name)
  writeInteger(out, SPAN.kind, kind)
}

/** The name, the kind and the shared attributes of a span. */
type SharedPart = { readonly name: string; readonly kind: number; readonly bytes: Uint8Array }

const sharedParts = new WeakMap<AttributeList, SharedPart>()

/** Spans with the same shared attributes almost always have the same name and kind. */
function encodeShared(span: Span, attributes: AttributeList): Uint8Array {
  const cached = sharedParts.get(attributes)
  const { name, kind } = span
  if (cached && cached.name === name && cached.kind === kind) return cached.bytes
  const out = openProtobuf()
  writeNameAndKind(out, span)
  writeAttributes(out, SPAN.attributes, attributes)
  const bytes = Uint8Array.from(takeProtobuf(out))
  sharedParts.set(attributes, { name, kind, bytes })
  return bytes
}

function writeSpan(out: ProtobufBytes, span: Span): void {
  const start = beginLong(out, SCOPE_SIGNALS.items)
  writeHex(out, SPAN.traceId, span.traceId)
  writeHex(out, SPAN.spanId, span.spanId)
  if (span.traceState !== undefined) writeText(out, SPAN.traceState, span.traceState)
  if (span.parentSpanId !== undefined) writeHex(out, SPAN.parentSpanId, span.parentSpanId)
  writeNanoseconds(out, SPAN.start, span.startMs)
  writeNanoseconds(out, SPAN.end, span.endMs)
  if (span.shared === undefined) writeNameAndKind(out, span)
  else writeRaw(out, encodeShared(span, span.shared))
  writeAttributes(out, SPAN.attributes, span.attributes)
  if (span.error !== undefined) {
    const status = begin(out, SPAN.status)
    if (span.error !== '') writeText(out, STATUS.message, span.error)
    writeInteger(out, STATUS.code, STATUS_ERROR)
    end(out, status)
  }
  endLong(out, start)
}

function writeLabels(out: ProtobufBytes, field: number, names: readonly string[], labels: readonly string[]) {
  for (const [index, name] of names.entries()) {
    const label = labels[index] ?? ''
    // As in Prometheus, an empty label is an absent one.
    if (label !== '')
      delimited(out, field, () => {
        writeText(out, KEY_VALUE.key, name)
        delimited(out, KEY_VALUE.value, () => writeText(out, VALUE.string, label))
      })
  }
}

type Times = Pick<MetricReport, 'startMs' | 'nowMs'>

function writeNumber(
  out: ProtobufBytes,
  { labelNames }: MetricSnapshot,
  { labels, values }: SeriesSnapshot,
  { startMs, nowMs }: Times,
): void {
  writeNanoseconds(out, NUMBER.start, startMs)
  writeNanoseconds(out, NUMBER.time, nowMs)
  writeDouble(out, values[0] ?? 0, NUMBER.double)
  writeLabels(out, NUMBER.attributes, labelNames, labels)
}

function writeHistogram(
  out: ProtobufBytes,
  { labelNames, buckets = [] }: MetricSnapshot,
  { labels, values }: SeriesSnapshot,
  { startMs, nowMs }: Times,
): void {
  const counts = values.slice(0, -1)
  writeNanoseconds(out, HISTOGRAM.start, startMs)
  writeNanoseconds(out, HISTOGRAM.time, nowMs)
  const total = counts.reduce((sum, count) => sum + count, 0)
  writeFixed64(out, total, HISTOGRAM.count)
  writeDouble(out, values.at(-1) ?? 0, HISTOGRAM.sum)
  delimited(out, HISTOGRAM.counts, () => {
    for (const count of counts) writeFixed64(out, count)
  })
  delimited(out, HISTOGRAM.bounds, () => {
    for (const bound of buckets) writeDouble(out, bound)
  })
  writeLabels(out, HISTOGRAM.attributes, labelNames, labels)
}

const DATA_FIELDS = { counter: METRIC.sum, gauge: METRIC.gauge, histogram: METRIC.histogram } as const

function writeMetric(out: ProtobufBytes, metric: MetricSnapshot, times: Times): void {
  const { name, help, kind, series } = metric
  const unit = UNITS.get(name)
  writeText(out, METRIC.name, name)
  writeText(out, METRIC.description, help)
  if (unit !== undefined) writeText(out, METRIC.unit, unit)
  delimited(out, DATA_FIELDS[kind], () => {
    const writePoint = kind === 'histogram' ? writeHistogram : writeNumber
    for (const one of series) delimited(out, DATA.points, () => writePoint(out, metric, one, times))
    if (kind !== 'gauge') writeInteger(out, DATA.temporality, CUMULATIVE)
    if (kind === 'counter') writeInteger(out, DATA.isMonotonic, 1)
  })
}

/** The fields and lengths of the messages around the items of an export request. */
const LENGTH_BYTES = 32
/**
 * Bodies use the memory of earlier ones: V8 counts memory outside of its heap, and some megabytes a second made it collect
 * garbage so often that this took 9 µs of a request.
 */
const MAX_SPARE = 2
const NO_MEMORY = Buffer.alloc(0)
const MAX_SPARE_BYTES = 4_194_304
const SPARE_FACTOR = 2

/** OTLP/HTTP with protobuf. */
export function createProtobufEncoding({ resource, scope }: TelemetrySource): TelemetryEncoding {
  const head = openProtobuf()
  delimited(head, RESOURCE_SIGNALS.resource, () => writeAttributes(head, RESOURCE.attributes, resource))
  const resourceBytes = Uint8Array.from(takeProtobuf(head))
  delimited(head, SCOPE_SIGNALS.scope, () => {
    writeText(head, SCOPE.name, scope.name)
    writeText(head, SCOPE.version, scope.version)
  })
  const scopeBytes = Uint8Array.from(takeProtobuf(head))

  /** The export request around encoded spans or metrics. */
  function requestOf(items: Buffer, memory: Buffer = NO_MEMORY): Buffer {
    const size = items.length + resourceBytes.length + scopeBytes.length + LENGTH_BYTES
    const out = { bytes: size <= memory.length ? memory : Buffer.allocUnsafeSlow(size * SPARE_FACTOR), at: 0 }
    delimited(out, REQUEST.resource, () => {
      writeRaw(out, resourceBytes)
      delimited(out, RESOURCE_SIGNALS.scope, () => {
        writeRaw(out, scopeBytes)
        writeRaw(out, items)
      })
    })
    return out.bytes.subarray(0, out.at)
  }

  return {
    contentType: 'application/x-protobuf',
    openBatch() {
      const out = openProtobuf()
      const spare: Buffer[] = []
      let count = 0
      return {
        add(span: Span) {
          writeSpan(out, span)
          count += 1
        },
        count: () => count,
        bytes: () => out.at,
        take() {
          count = 0
          return readProtobuf(out, items => requestOf(items, spare.pop()))
        },
        reuse({ buffer }) {
          if (spare.length < MAX_SPARE && buffer.byteLength <= MAX_SPARE_BYTES)
            spare.push(Buffer.from(buffer))
        },
      }
    },
    metrics({ metrics, ...times }) {
      const out = openProtobuf()
      for (const metric of metrics)
        if (metric.series.length > 0)
          delimited(out, SCOPE_SIGNALS.items, () => writeMetric(out, metric, times))
      return requestOf(takeProtobuf(out))
    },
  }
}
