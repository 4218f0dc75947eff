import { randomFillSync } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'

/** The position of a request in a trace (W3C Trace Context). Ids are lower-case hexadecimal digits. */
export type TraceContext = {
  readonly traceId: string
  readonly spanId: string
  /** The client's span; undefined if the trace starts here. */
  readonly parentSpanId: string | undefined
  readonly isSampled: boolean
  /** The client's `tracestate`, which is passed on unchanged. */
  readonly state: string | undefined
}

/** Which traces are exported: a share of them, or those that the client has sampled (`OTEL_TRACES_SAMPLER`). */
export type Sampler = {
  readonly ratio: number
  /** A client that sends `traceparent` decides by its sampled flag. */
  readonly isParentBased: boolean
}

const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/
const ZEROS = /^0+$/
const SAMPLED = 1

type Parent = { readonly traceId: string; readonly spanId: string; readonly isSampled: boolean }

/** Undefined if the header is absent or invalid: the trace then starts here. */
export function readTraceparent(header: string | string[] | undefined): Parent | undefined {
  const match = typeof header === 'string' ? TRACEPARENT.exec(header.trim()) : null
  if (!match) return undefined
  const [, version, traceId = '', spanId = '', flags = '', more] = match
  // A later version may have further fields; version 00 has none, and ff is forbidden.
  if (version === 'ff' || (version === '00' && more !== undefined)) return undefined
  if (ZEROS.test(traceId) || ZEROS.test(spanId)) return undefined
  return { traceId, spanId, isSampled: (Number.parseInt(flags, 16) & SAMPLED) !== 0 }
}

const MAX_STATE_LENGTH = 512
const MAX_STATE_MEMBERS = 32
const STATE_MEMBER = /^\s*(?:[a-z0-9][a-z0-9_\-*/@]{0,255}=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{1,256})?\s*$/

/** Undefined if the header is absent, invalid or longer than 512 characters. */
export function readTracestate(header: string | string[] | undefined): string | undefined {
  if (typeof header !== 'string' || header === '' || header.length > MAX_STATE_LENGTH) return undefined
  const members = header.split(',')
  const isValid = members.length <= MAX_STATE_MEMBERS && members.every(member => STATE_MEMBER.test(member))
  return isValid ? header : undefined
}

export const traceparentOf = (traceId: string, spanId: string, isSampled: boolean) =>
  `00-${traceId}-${spanId}-${isSampled ? '01' : '00'}`

const TRACE_DIGITS = 32
const SPAN_DIGITS = 16
const POOL_BYTES = 2_048

/** Random ids. They are cut from a pool, because a call of the random generator costs more than a request may. */
export function createTraceIds() {
  const bytes = Buffer.alloc(POOL_BYTES)
  let pool = ''
  let at = 0
  function take(digits: number): string {
    if (at + digits > pool.length) {
      pool = randomFillSync(bytes).toString('hex')
      at = 0
    }
    at += digits
    return pool.slice(at - digits, at)
  }
  return { newTraceId: () => take(TRACE_DIGITS), newSpanId: () => take(SPAN_DIGITS) }
}

export type TraceIds = ReturnType<typeof createTraceIds>

const RANDOM_DIGITS = 14
const RANDOM_VALUES = 2 ** 56

/** By the last 56 bits of the trace id, which are random, so that every service samples the same traces. */
const isInRatio = (traceId: string, ratio: number) =>
  ratio >= 1 || Number.parseInt(traceId.slice(-RANDOM_DIGITS), 16) >= (1 - ratio) * RANDOM_VALUES

/** The context of a new request: it continues the client's trace, or starts one. */
export function openTrace(headers: IncomingHttpHeaders, sampler: Sampler, ids: TraceIds): TraceContext {
  const parent = headers.traceparent === undefined ? undefined : readTraceparent(headers.traceparent)
  const traceId = parent?.traceId ?? ids.newTraceId()
  return {
    traceId,
    spanId: ids.newSpanId(),
    parentSpanId: parent?.spanId,
    isSampled: parent && sampler.isParentBased ? parent.isSampled : isInRatio(traceId, sampler.ratio),
    state: parent && readTracestate(headers.tracestate),
  }
}
