import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { type Simulator, startSimulator } from '../../simulator/server.ts'
import { type OtlpReceiver, startOtlpReceiver } from '../support/otlp-receiver.ts'
import { newDirectory, type Server, startServer, until } from '../support/process.ts'
import { createResources } from '../support/relay.ts'

const CUMULATIVE = 2
const INTERVAL_MS = 200

for (const protocol of ['http/protobuf', 'http/json'])
  describe(`metrics by OTLP, ${protocol} (docs/reference/metrics.md: OTLP)`, () => {
    let simulator: Simulator | undefined
    let receiver: OtlpReceiver
    let server: Server

    before(async () => {
      simulator = await startSimulator()
      receiver = await startOtlpReceiver()
      server = await startServer({
        dataDir: newDirectory(),
        env: {
          SLUICE_LOG: 'info',
          OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: `${receiver.url}/v1/metrics`,
          OTEL_EXPORTER_OTLP_PROTOCOL: protocol,
          OTEL_METRIC_EXPORT_INTERVAL: String(INTERVAL_MS),
          OTEL_SERVICE_NAME: 'gateway-one',
        },
      })
    })
    after(async () => {
      await server?.stop()
      await simulator?.close()
      await receiver?.close()
    })

    it('are the metrics for Prometheus, and those of the GenAI conventions', async () => {
      const resources = createResources(server.api, simulator?.url ?? '')
      const { model } = await resources.serve('sim-words-4')
      const { key } = await resources.newToken({ unlimited_quota: true })
      const chat = (more: Readonly<Record<string, unknown>> = {}) =>
        server.api(
          'POST',
          '/v1/chat/completions',
          { model, messages: [{ role: 'user', content: 'Hello' }], ...more },
          { token: key },
        )
      assert.equal((await chat()).status, 200)
      assert.equal((await chat({ stream: true })).status, 200)
      assert.equal((await chat({ model: 'no-such-model' })).status, 404)
      const points = (name: string, kind: string) => receiver.metrics().get(name)?.[kind]?.dataPoints ?? []
      await until('the requests', () =>
        points('sluice_requests_total', 'sum').length === 2 &&
        points('gen_ai.client.operation.duration', 'histogram')[0]?.count === '2'
          ? true
          : undefined,
      )
      assert.deepEqual(receiver.faults, [])
      const metrics = receiver.metrics()
      const { sum } = metrics.get('sluice_requests_total')
      assert.equal(sum.aggregationTemporality, CUMULATIVE)
      assert.equal(sum.isMonotonic, true)
      assert.deepEqual(
        sum.dataPoints.map(({ attributes, asDouble }: never) => [receiver.labelsOf(attributes), asDouble]),
        [
          [{ operation: 'chat', status: '200' }, 2],
          [{ operation: 'chat', status: '404', code: 'model_not_found' }, 1],
        ],
      )
      const labels = {
        'gen_ai.operation.name': 'chat',
        'gen_ai.provider.name': 'openai',
        'gen_ai.request.model': model,
      }
      const duration = metrics.get('gen_ai.client.operation.duration')
      assert.equal(duration.unit, 's')
      const [durations] = duration.histogram.dataPoints
      assert.deepEqual(receiver.labelsOf(durations.attributes), labels)
      assert.equal(durations.bucketCounts.length, durations.explicitBounds.length + 1)
      assert.equal(
        durations.bucketCounts.map(Number).reduce((a: number, b: number) => a + b),
        2,
      )
      const tokens = metrics.get('gen_ai.client.token.usage').histogram.dataPoints
      const output = tokens.find(
        ({ attributes }: never) => receiver.labelsOf(attributes)['gen_ai.token.type'] === 'output',
      )
      assert.deepEqual([output.count, output.sum], ['2', 8])
      assert.equal(points('gen_ai.server.time_to_first_token', 'histogram')[0].count, '1')
      assert.ok(points('sluice_memory_bytes', 'gauge').length > 0)
      const last = receiver.posts.at(-1)
      const resource = receiver.labelsOf(last?.message.resourceMetrics[0].resource.attributes)
      assert.equal(resource['service.name'], 'gateway-one')
    })

    it('are logged once if they cannot be delivered, and once when they can again', async () => {
      receiver.answer({ status: 503 })
      const before = receiver.requests()
      await until('three failures', () => (receiver.requests() >= before + 3 ? true : undefined))
      receiver.answer({ status: 200 })
      const linesOf = (message: string) => server.lines().filter(({ msg }) => msg === message)
      await until('the recovery', () =>
        linesOf('The receiver of telemetry accepts data again.').length === 1 ? true : undefined,
      )
      const warnings = linesOf('Telemetry could not be delivered.')
      assert.deepEqual(
        warnings.map(({ signal, receiver: origin, reason }) => [signal, origin, reason]),
        [['metrics', receiver.url, 'status 503']],
      )
    })

    it('are sent once more when the gateway stops', async () => {
      const before = receiver.posts.length
      const { code } = await server.stop()
      assert.equal(code, 0)
      assert.ok(receiver.posts.length > before)
      assert.ok(receiver.metrics().has('sluice_requests_total'))
    })
  })
