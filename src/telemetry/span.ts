export type AttributeValue = string | number | boolean

/** The name of an attribute and the type of its values. */
export type AttributeKey = {
  readonly name: string
  readonly type: 'string' | 'int' | 'double' | 'bool'
  /** The name as it is sent, encoded once. */
  readonly bytes: Uint8Array
}

/** Attributes: each key is followed by its value. A flat list, because a span has twenty of them. */
export type AttributeList = readonly (AttributeKey | AttributeValue)[]

export const attributeKey = (name: string, type: AttributeKey['type'] = 'string'): AttributeKey => ({
  name,
  type,
  bytes: new TextEncoder().encode(name),
})

/** The attributes of the process that sends spans and metrics, and of the code that creates them. */
export type TelemetrySource = {
  readonly resource: AttributeList
  readonly scope: { readonly name: string; readonly version: string }
}

/** The numbers of OTLP. */
export const SPAN_KIND = { server: 2, client: 3 } as const

export type Span = {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId: string | undefined
  readonly traceState: string | undefined
  readonly name: string
  readonly kind: (typeof SPAN_KIND)[keyof typeof SPAN_KIND]
  /** Unix time in milliseconds, with fractions. */
  readonly startMs: number
  readonly endMs: number
  readonly attributes: AttributeList
  /** Further attributes, which many spans have in common: a list is encoded once. */
  readonly shared: AttributeList | undefined
  /** The description of the error that ended the span; undefined: no error. */
  readonly error: string | undefined
}

/** The code of an error in the status of a span. */
export const STATUS_ERROR = 2

/** Metrics are totals since the start of the process. */
export const CUMULATIVE = 2
