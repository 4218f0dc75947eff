/**
 * Counters, histograms and gauges in the style of Prometheus. A metric is declared once with the names of its labels; a
 * series is one combination of label values. Hot paths look a series up once and keep it.
 */
export type Counter = { add(value?: number): void }
export type Histogram = { observe(value: number): void }

type MetricKind = 'counter' | 'gauge' | 'histogram'

type Declaration<Label extends string> = {
  /** By the Prometheus conventions: the unit is the suffix, and counters end in `_total`. */
  readonly name: string
  readonly help: string
  readonly labels?: readonly Label[]
}

/**
 * One series as it is collected. A counter or gauge has one value. A histogram has the count of each bucket by itself (not
 * added up, as Prometheus does), then the count of values above all buckets, then the sum of all values.
 */
export type SeriesSnapshot = { readonly labels: readonly string[]; readonly values: readonly number[] }

/** One metric as it is collected from one process. Plain data, so that it can be sent to another process. */
export type MetricSnapshot = {
  readonly name: string
  readonly help: string
  readonly kind: MetricKind
  readonly labelNames: readonly string[]
  /** The upper bounds of a histogram's buckets. */
  readonly buckets?: readonly number[]
  readonly series: readonly SeriesSnapshot[]
}

/** Further label combinations of a metric are counted together: label values may come from clients and providers. */
export const MAX_SERIES = 2_000
const OVERFLOW_VALUE = 'other'

type Series = { readonly labels: readonly string[]; readonly values: Float64Array }

/** The series of one metric, by their label values. */
function createSeriesTable(labelCount: number, valueCount: number) {
  const table = new Map<string, Series>()

  function add(key: string, labels: readonly string[]): Series {
    const series = { labels, values: new Float64Array(valueCount) }
    table.set(key, series)
    return series
  }

  return {
    find(labels: readonly string[]): Series {
      const key = labels.join('\u0000')
      const existing = table.get(key)
      if (existing) return existing
      if (table.size < MAX_SERIES) return add(key, labels)
      const overflow = new Array<string>(labelCount).fill(OVERFLOW_VALUE)
      const overflowKey = overflow.join('\u0000')
      return table.get(overflowKey) ?? add(overflowKey, overflow)
    },
    snapshot: (): SeriesSnapshot[] =>
      [...table.values()].map(({ labels, values }) => ({ labels, values: [...values] })),
  }
}

const valuesOf = <Label extends string>(names: readonly Label[], labels: Readonly<Record<Label, string>>) =>
  names.map(name => labels[name])

export type GaugeSeries<Label extends string> = {
  readonly labels: Readonly<Record<Label, string>>
  readonly value: number
}

/** A gauge may read from the store, which must not delay the other metrics when it does not respond. */
const READ_TIMEOUT_MS = 2_000

function readWithin<T>(read: () => T | Promise<T>): Promise<T> {
  const timeout = Promise.withResolvers<never>()
  const timer = setTimeout(() => timeout.reject(new Error('The gauge took too long.')), READ_TIMEOUT_MS)
  return Promise.race([Promise.try(read), timeout.promise]).finally(() => clearTimeout(timer))
}

/** The metrics of one process. */
export function createRegistry() {
  const collectors: (() => MetricSnapshot | Promise<MetricSnapshot>)[] = []

  return {
    /** Returns a function from label values to their series. */
    counter<Label extends string = never>({ name, help, labels: labelNames = [] }: Declaration<Label>) {
      const table = createSeriesTable(labelNames.length, 1)
      collectors.push(() => ({ name, help, kind: 'counter', labelNames, series: table.snapshot() }))
      return (labels: Readonly<Record<Label, string>>): Counter => {
        const { values } = table.find(valuesOf(labelNames, labels))
        return {
          add(value = 1) {
            values[0] = (values[0] as number) + value
          },
        }
      }
    },

    histogram<Label extends string = never>({
      name,
      help,
      labels: labelNames = [],
      buckets,
    }: Declaration<Label> & { readonly buckets: readonly number[] }) {
      const sumAt = buckets.length + 1
      const table = createSeriesTable(labelNames.length, sumAt + 1)
      collectors.push(() => ({
        name,
        help,
        kind: 'histogram',
        labelNames,
        buckets,
        series: table.snapshot(),
      }))
      return (labels: Readonly<Record<Label, string>>): Histogram => {
        const { values } = table.find(valuesOf(labelNames, labels))
        return {
          observe(value) {
            let bucket = 0
            while (bucket < buckets.length && value > (buckets[bucket] as number)) bucket += 1
            values[bucket] = (values[bucket] as number) + 1
            values[sumAt] = (values[sumAt] as number) + value
          },
        }
      }
    },

    /** A value that is read when metrics are collected. If reading fails or takes too long, the metric has no series. */
    gauge<Label extends string = never>(
      { name, help, labels: labelNames = [] }: Declaration<Label>,
      read: () => readonly GaugeSeries<Label>[] | Promise<readonly GaugeSeries<Label>[]>,
    ): void {
      collectors.push(async () => {
        const current = await readWithin(read).catch(() => [])
        const table = createSeriesTable(labelNames.length, 1)
        for (const { labels, value } of current) {
          const { values } = table.find(valuesOf(labelNames, labels))
          values[0] = (values[0] as number) + value
        }
        return { name, help, kind: 'gauge', labelNames, series: table.snapshot() }
      })
    },

    collect: (): Promise<MetricSnapshot[]> => Promise.all(collectors.map(async collect => collect())),
  }
}

export type Registry = ReturnType<typeof createRegistry>
