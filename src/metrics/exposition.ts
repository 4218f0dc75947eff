import type { MetricSnapshot, SeriesSnapshot } from './registry.ts'

/** The text format of Prometheus. */
export const EXPOSITION_TYPE = 'text/plain; version=0.0.4; charset=utf-8'

/** Adds up the metrics of several processes: series with the same labels become one. */
export function mergeMetrics(processes: readonly (readonly MetricSnapshot[])[]): MetricSnapshot[] {
  const merged = new Map<string, { metric: MetricSnapshot; series: Map<string, SeriesSnapshot> }>()
  for (const metric of processes.flat()) {
    const entry = merged.get(metric.name) ?? { metric, series: new Map<string, SeriesSnapshot>() }
    merged.set(metric.name, entry)
    for (const one of metric.series) {
      const key = one.labels.join('\u0000')
      const other = entry.series.get(key)
      entry.series.set(key, other ? plus(one, other) : one)
    }
  }
  return [...merged.values()].map(({ metric, series }) => ({ ...metric, series: [...series.values()] }))
}

const plus = (one: SeriesSnapshot, other: SeriesSnapshot): SeriesSnapshot => ({
  labels: one.labels,
  values: one.values.map((value, index) => value + (other.values[index] ?? 0)),
})

const ESCAPES: Readonly<Record<string, string>> = { '\\': '\\\\', '"': '\\"', '\n': '\\n' }
const escapeValue = (text: string) => text.replace(/[\\"\n]/g, each => ESCAPES[each] as string)
const escapeHelp = (text: string) => text.replace(/[\\\n]/g, each => ESCAPES[each] as string)

function labelText(names: readonly string[], values: readonly string[], more = ''): string {
  const pairs = names.map((name, index) => `${name}="${escapeValue(values[index] ?? '')}"`)
  if (more !== '') pairs.push(more)
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`
}

function histogramLines(
  { name, labelNames, buckets = [] }: MetricSnapshot,
  { labels, values }: SeriesSnapshot,
) {
  const lines: string[] = []
  let count = 0
  for (const [index, bound] of [...buckets, Number.POSITIVE_INFINITY].entries()) {
    count += values[index] ?? 0
    const bucket = bound === Number.POSITIVE_INFINITY ? '+Inf' : String(bound)
    lines.push(`${name}_bucket${labelText(labelNames, labels, `le="${bucket}"`)} ${count}`)
  }
  const text = labelText(labelNames, labels)
  lines.push(`${name}_sum${text} ${values.at(-1) ?? 0}`, `${name}_count${text} ${count}`)
  return lines
}

/** Writes metrics in the text format of Prometheus. */
export function exposeMetrics(metrics: readonly MetricSnapshot[]): string {
  const lines: string[] = []
  for (const metric of metrics) {
    const { name, help, kind, labelNames, series } = metric
    lines.push(`# HELP ${name} ${escapeHelp(help)}`, `# TYPE ${name} ${kind}`)
    for (const one of series)
      if (kind === 'histogram') lines.push(...histogramLines(metric, one))
      else lines.push(`${name}${labelText(labelNames, one.labels)} ${one.values[0] ?? 0}`)
  }
  return `${lines.join('\n')}\n`
}
