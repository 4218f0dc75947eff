import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { type Simulator, startSimulator } from '../../simulator/server.ts'
import { freePort } from './free-port.ts'
import { type Env, type Server, until } from './process.ts'
import { createResources } from './relay.ts'

const REQUESTS = 12
const SAMPLE = /^(sluice_\w+)(?:\{(\w+="(?:[^"\\\n]|\\.)*",?)*\})? (-?[\d.e+-]+|\+Inf)$/

type MeasuredGateway = Pick<Server, 'api' | 'url'> & { stop(): Promise<unknown> }

/** The suite of the metrics of a gateway, which is started with these settings. */
export function describeMetrics(name: string, start: (env: Env) => Promise<MeasuredGateway>): void {
  describe(`the metrics of ${name} (docs/reference/metrics.md: Requests)`, () => {
    let simulator: Simulator | undefined
    let server: MeasuredGateway
    let resources: ReturnType<typeof createResources>
    let metricsUrl: string

    before(async () => {
      simulator = await startSimulator()
      const port = await freePort()
      metricsUrl = `http://127.0.0.1:${port}/metrics`
      server = await start({ SLUICE_METRICS_PORT: String(port) })
      resources = createResources(server.api, simulator.url)
    })
    after(async () => {
      await server?.stop()
      await simulator?.close()
    })

    /** A connection for each request, so that every worker gets some. */
    const chat = (key: string, model: string, more: Readonly<Record<string, unknown>> = {}) =>
      fetch(`${server.url}/v1/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', connection: 'close' },
        body: JSON.stringify({ model, messages: [{ role: 'user', content: 'Hello' }], ...more }),
      }).then(async response => ({ status: response.status, text: await response.text() }))

    async function read(): Promise<Map<string, number>> {
      const response = await fetch(metricsUrl)
      assert.equal(response.status, 200)
      assert.match(response.headers.get('content-type') ?? '', /^text\/plain; version=0\.0\.4/)
      const lines = (await response.text()).trimEnd().split('\n')
      for (const line of lines)
        assert.match(line, line.startsWith('#') ? /^# (HELP|TYPE) sluice_\w+ ./ : SAMPLE)
      return new Map(
        lines
          .filter(line => !line.startsWith('#'))
          .map(line => {
            const at = line.lastIndexOf(' ')
            return [line.slice(0, at), Number(line.slice(at + 1))]
          }),
      )
    }

    it('count requests, rejections, attempts, tokens, spend and times of all workers', async () => {
      const { model, channels } = await resources.serve('sim-words-4', {}, { per_call: 0.01 })
      const { key } = await resources.newToken({ unlimited_quota: true })
      for (let i = 0; i < REQUESTS; i++) assert.equal((await chat(key, model)).status, 200)
      assert.equal((await chat(key, model, { stream: true })).status, 200)
      assert.equal((await chat(key, 'no-such-model')).status, 404)
      assert.equal((await chat(`sk-${'0'.repeat(48)}`, model)).status, 401)
      const values = await until('the last request', async () => {
        const now = await read()
        return now.get('sluice_in_flight_requests') === 0 ? now : undefined
      })
      const all = REQUESTS + 1
      const expected = {
        'sluice_requests_total{operation="chat",status="200",code=""}': all,
        'sluice_requests_total{operation="chat",status="404",code="model_not_found"}': 1,
        'sluice_requests_total{operation="chat",status="401",code="invalid_api_key"}': 1,
        [`sluice_attempts_total{channel="${channels[0]}",outcome="ok"}`]: all,
        'sluice_tokens_total{kind="output"}': 4 * all,
        sluice_spend_usd_total: 0.01 * all,
        sluice_request_duration_seconds_count: all + 2,
        sluice_time_to_first_token_seconds_count: 1,
        sluice_overhead_seconds_count: all,
        sluice_held_usd: 0,
        sluice_suspense_usd: 0,
        sluice_leased_usd: 0,
        [`sluice_channel_state{channel="${channels[0]}",state="enabled"}`]: 1,
        [`sluice_channel_keys{channel="${channels[0]}",state="enabled"}`]: 1,
        [`sluice_channel_keys{channel="${channels[0]}",state="cooling_down"}`]: 0,
      }
      for (const [name, value] of Object.entries(expected))
        assert.ok(Math.abs((values.get(name) ?? Number.NaN) - value) < 1e-9, `${name}: ${values.get(name)}`)
      for (const name of [
        'sluice_event_loop_lag_seconds',
        'sluice_journal_lag_seconds',
        'sluice_connections',
        'sluice_memory_bytes{part="rss"}',
        'sluice_memory_bytes{part="bodies"}',
      ])
        assert.ok((values.get(name) ?? -1) >= 0, name)
    })

    it('tell the state of a channel', async () => {
      const { channels } = await resources.serve('sim-words-4')
      await resources.must(server.api('PUT', '/api/channel/', { id: channels[0], status: 2 }))
      assert.equal((await read()).get(`sluice_channel_state{channel="${channels[0]}",state="disabled"}`), 1)
    })

    it('tell how many keys of a channel are in each state, in any worker', async () => {
      const id = await resources.addChannel(
        { models: ['keys'], model_mapping: { keys: 'sim-status-401' }, key: 'key-a,key-b,key-c' },
        'multi_to_single',
      )
      await resources.must(server.api('POST', '/api/price/', { model: 'keys', input: 1, output: 1 }))
      await resources.must(server.api('POST', `/api/channel/${id}/keys/2/status`, { status: 2 }))
      const { key } = await resources.newToken({ unlimited_quota: true })
      assert.equal((await chat(key, 'keys')).status, 502)
      const values = await read()
      const counts = ['enabled', 'cooling_down', 'disabled', 'auto_disabled'].map(state =>
        values.get(`sluice_channel_keys{channel="${id}",state="${state}"}`),
      )
      assert.deepEqual(counts, [1, 1, 1, 0])
      assert.equal(values.get(`sluice_channel_state{channel="${id}",state="enabled"}`), 1)
    })

    it('count limits that callers and channels have reached', async () => {
      const valueFor = async (subject: string) =>
        (await read()).get(`sluice_limits_reached_total{subject="${subject}"}`)
      const before = [await valueFor('caller'), await valueFor('channel')]
      const { model } = await resources.serve('sim-words-4', { limits: { rpm: 1 } })
      const { key } = await resources.newToken({ unlimited_quota: true })
      const limited = await resources.newToken({ unlimited_quota: true, limits: { rpm: 1 } })
      const statuses = []
      for (const each of [limited.key, limited.key, key]) statuses.push((await chat(each, model)).status)
      assert.deepEqual(statuses, [200, 429, 503])
      assert.deepEqual(
        [await valueFor('caller'), await valueFor('channel')],
        before.map(value => (value ?? 0) + 1),
      )
    })

    it('count requests of the management API by status and code', async () => {
      const valueFor = async (status: number, code: string) =>
        (await read()).get(`sluice_management_requests_total{status="${status}",code="${code}"}`) ?? 0
      const before = await valueFor(404, 'not_found')
      assert.equal((await server.api('GET', '/api/no-such-route')).status, 404)
      assert.equal(await valueFor(404, 'not_found'), before + 1)
      assert.ok((await valueFor(200, '')) > 0)
    })

    it('are at the gateway itself for administrators only', async () => {
      assert.equal((await fetch(`${server.url}/metrics`)).status, 401)
      const reply = await server.api('GET', '/metrics')
      assert.equal(reply.status, 200)
      assert.match(reply.text, /^sluice_requests_total\{operation="chat"/m)
      const token = await resources.newToken({})
      assert.equal((await server.api('GET', '/metrics', undefined, { token: token.key })).status, 401)
    })

    it('are the only path of their port', async () => {
      for (const [method, path] of [
        ['GET', '/'],
        ['GET', '/api/status'],
        ['POST', '/metrics'],
      ] as const)
        assert.equal((await fetch(new URL(path, metricsUrl), { method })).status, 404)
    })
  })
}
