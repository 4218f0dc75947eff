import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { exposeMetrics, mergeMetrics } from '../../src/metrics/exposition.ts'
import { createRegistry, MAX_SERIES } from '../../src/metrics/registry.ts'

const requests = { name: 'test_requests_total', help: 'Requests.', labels: ['code'] } as const
const duration = { name: 'test_duration_seconds', help: 'Time.', buckets: [0.1, 1] }

describe('the metrics of a process', () => {
  it('are written in the text format of Prometheus', async () => {
    const registry = createRegistry()
    const count = registry.counter(requests)
    count({ code: 'a "quoted"\nname\\' }).add()
    count({ code: 'ok' }).add(2)
    count({ code: 'ok' }).add()
    const { observe } = registry.histogram(duration)({})
    for (const seconds of [0.05, 0.1, 0.5, 7]) observe(seconds)
    registry.gauge({ name: 'test_channels', help: 'Channels.', labels: ['state'] }, async () => [
      { labels: { state: 'enabled' }, value: 3 },
    ])
    assert.equal(
      exposeMetrics(await registry.collect()),
      `# HELP test_requests_total Requests.
# TYPE test_requests_total counter
test_requests_total{code="a \\"quoted\\"\\nname\\\\"} 1
test_requests_total{code="ok"} 3
# HELP test_duration_seconds Time.
# TYPE test_duration_seconds histogram
test_duration_seconds_bucket{le="0.1"} 2
test_duration_seconds_bucket{le="1"} 3
test_duration_seconds_bucket{le="+Inf"} 4
test_duration_seconds_sum 7.65
test_duration_seconds_count 4
# HELP test_channels Channels.
# TYPE test_channels gauge
test_channels{state="enabled"} 3
`,
    )
  })

  it('count further label values together once there are too many', async () => {
    const registry = createRegistry()
    const count = registry.counter(requests)
    for (let code = 0; code < MAX_SERIES + 50; code++) count({ code: String(code) }).add()
    const [metric] = await registry.collect()
    assert.equal(metric?.series.length, MAX_SERIES + 1)
    assert.deepEqual(metric?.series.at(-1), { labels: ['other'], values: [50] })
  })

  it('lack a gauge that cannot be read in time, and have the others', async context => {
    context.mock.timers.enable({ apis: ['setTimeout'] })
    const registry = createRegistry()
    registry.gauge({ name: 'test_hanging', help: 'Hangs.' }, () => new Promise<never>(() => {}))
    registry.gauge({ name: 'test_failing', help: 'Fails.' }, () => Promise.reject(new Error('down')))
    registry.gauge({ name: 'test_good', help: 'Works.' }, () => [{ labels: {}, value: 1 }])
    const collected = registry.collect()
    context.mock.timers.runAll()
    assert.deepEqual(
      (await collected).map(({ name, series }) => [name, series.length]),
      [
        ['test_hanging', 0],
        ['test_failing', 0],
        ['test_good', 1],
      ],
    )
  })

  it('add up further values of a gauge in the same way', async () => {
    const registry = createRegistry()
    registry.gauge({ name: 'test_keys', help: 'Keys.', labels: ['channel'] }, () =>
      Array.from({ length: MAX_SERIES + 3 }, (_, id) => ({ labels: { channel: String(id) }, value: 2 })),
    )
    const [metric] = await registry.collect()
    assert.equal(metric?.series.length, MAX_SERIES + 1)
    assert.deepEqual(metric?.series.at(-1), { labels: ['other'], values: [6] })
  })
})

it('the metrics of several processes are added up by their labels', async () => {
  const [one, two] = [createRegistry(), createRegistry()]
  for (const [registry, codes] of [
    [one, ['ok', 'ok', 'only_one']],
    [two, ['ok', 'only_two']],
  ] as const) {
    const count = registry.counter(requests)
    for (const code of codes) count({ code }).add()
    registry.histogram(duration)({}).observe(0.2)
  }
  const merged = mergeMetrics([await one.collect(), await two.collect()])
  assert.deepEqual(
    merged.map(({ name, series }) => [name, series.map(({ labels, values }) => [...labels, ...values])]),
    [
      [
        requests.name,
        [
          ['ok', 3],
          ['only_one', 1],
          ['only_two', 1],
        ],
      ],
      [duration.name, [[0, 2, 0, 0.4]]],
    ],
  )
})
