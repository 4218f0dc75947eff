import type { MetricSnapshot } from '../metrics/registry.ts'
import type { ExportBatch } from './batch-export.ts'
import type { Span } from './span.ts'

export type MetricReport = {
  readonly metrics: readonly MetricSnapshot[]
  /** When the counters were 0, and when they were read. */
  readonly startMs: number
  readonly nowMs: number
}

/** A form of OTLP/HTTP. */
export type TelemetryEncoding = {
  readonly contentType: string
  openBatch(): ExportBatch<Span>
  metrics(report: MetricReport): Buffer
}

/** The units of metrics whose names do not end in one. */
export const UNITS: ReadonlyMap<string, string> = new Map([
  ['gen_ai.client.operation.duration', 's'],
  ['gen_ai.client.token.usage', '{token}'],
  ['gen_ai.server.time_to_first_token', 's'],
])
