import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { after, before, it } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { createBudget, createShare } from '../../src/http/budget.ts'
import { readBody } from '../../src/relay/intake/body.ts'
import { describeOverServers, startGateway } from '../support/gateway.ts'
import { openClient, post, startHttp } from '../support/http1.ts'
import { until } from '../support/process.ts'
import { createResources, suiteRelay } from '../support/relay.ts'
import { createRandom } from '../support/request-bytes.ts'

/** How clients leave. */
const LEAVES = ['resetAndDestroy', 'end', 'destroy'] as const
const isCampaign = process.env.SLUICE_CAMPAIGN !== undefined

const ask = (key: string, body: unknown) => {
  const text = JSON.stringify(body)
  return `POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`
}
const question = (model: string, more = {}) => ({
  model,
  max_tokens: 20,
  messages: [{ role: 'user', content: 'Hi' }],
  ...more,
})

const frame = (delta: object) => `data: ${JSON.stringify({ choices: [{ index: 0, delta }] })}\n\n`
const EVENTS = `${frame({ content: 'naïve ✓ 💧' })}${frame({ content: 'x'.repeat(100) })}data: [DONE]\n\n`

/** A provider that sends a stream byte by byte, each in a chunk and in a packet of its own. */
async function startDrippingProvider() {
  const server = createServer({ noDelay: true }, socket => {
    socket.on('error', () => {})
    socket.once('data', async () => {
      const chunks = [...Buffer.from(EVENTS)].flatMap(byte => [0x31, 0x0d, 0x0a, byte, 0x0d, 0x0a])
      const head = 'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n'
      for (const byte of Buffer.concat([Buffer.from(head), Buffer.from(chunks), Buffer.from('0\r\n\r\n')])) {
        socket.write(Buffer.of(byte))
        await setImmediate()
      }
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () => void server.close(),
  }
}

/** The body of a chunked response. */
function bodyOf(response: string): string {
  let rest = Buffer.from(response.slice(response.indexOf('\r\n\r\n') + 4), 'latin1')
  const parts: Buffer[] = []
  for (;;) {
    const lineEnd = rest.indexOf('\r\n')
    const size = Number.parseInt(rest.toString('latin1', 0, lineEnd), 16)
    if (size === 0) return Buffer.concat(parts).toString()
    parts.push(rest.subarray(lineEnd + 2, lineEnd + 2 + size))
    rest = rest.subarray(lineEnd + 4 + size)
  }
}

describeOverServers('a body that arrives in pieces before it is read', http => {
  it('is read completely', async test => {
    const bodies: string[] = []
    const server = await startHttp(
      async (request, response) => {
        // As while the caller is looked up in the store.
        await until('the body', () => (request.complete ? true : undefined))
        const share = createShare(createBudget({ maxBytes: 1_000_000, onShortage: () => {} }))
        const body = await readBody(request, { maxBytes: 1_000, share, isFunded: async () => true })
        bodies.push(body.toString())
        response.writeHead(200, { 'content-length': '0' })
        response.end()
      },
      { http },
    )
    test.after(server.close)
    const { socket, text } = await openClient(server.port)
    const bytes = post('{"model":"any"}')
    socket.write(bytes.slice(0, -15))
    for (const byte of bytes.slice(-15)) {
      await new Promise(resolve => socket.write(byte, resolve))
      await setImmediate()
    }
    await until('the answer', () => (text().includes(' 200 ') ? true : undefined))
    assert.deepEqual(bodies, ['{"model":"any"}'])
  })
})

describeOverServers('the relay', http => {
  const relay = suiteRelay('sqlite', {}, http)
  let provider: Awaited<ReturnType<typeof startDrippingProvider>>

  before(async () => {
    provider = await startDrippingProvider()
  })
  after(() => provider.close())

  const client = () => openClient(Number(new URL(relay.gateway.url).port))

  it('reads a request and sends a stream that arrive byte by byte', async () => {
    const { model } = await relay.serve('any', { base_url: provider.url })
    const { key } = await relay.newToken()
    const { socket, text } = await client()
    for (const byte of Buffer.from(ask(key, question(model, { stream: true })))) {
      socket.write(Buffer.of(byte))
      await setImmediate()
    }
    await until('the end', () => (text().endsWith('0\r\n\r\n') ? true : undefined))
    assert.equal(bodyOf(text()), EVENTS)
    socket.destroy()
  })

  /** The value of a metric without labels or with these. */
  async function metric(name: string): Promise<number> {
    const { text } = await relay.api('GET', '/metrics')
    const line = text.split('\n').find(each => each.startsWith(`${name} `))
    return Number(line?.split(' ').at(-1))
  }

  it('releases connections, memory and money of clients that leave at any moment', async () => {
    const { model } = await relay.serve('sim-words-20-pace-5')
    const { key, id } = await relay.newToken({ unlimited_quota: true })
    const random = createRandom(20_261_116)
    const connectionsBefore = await metric('sluice_connections')
    const VISITS = isCampaign ? 5_000 : 80
    const AT_ONCE = 20
    let finished = 0
    async function visit() {
      const { socket, text, closed } = await client()
      const bytes = ask(
        key,
        question(model, { stream: random() < 0.5, padding: 'x'.repeat(random() * 3_000) }),
      )
      const isCut = random() < 0.2
      socket.write(isCut ? bytes.slice(0, random() * bytes.length) : bytes)
      for (let turns = random() * 200; turns > 0 && !isCut; turns--) await setImmediate()
      if (!isCut && random() < 0.2)
        await until('an answer', () => (/\}$|0\r\n\r\n$/.test(text()) ? true : undefined))
      if (text() !== '') finished++
      socket[LEAVES[Math.floor(random() * LEAVES.length)] ?? 'destroy']()
      await closed
    }
    for (let visits = 0; visits < VISITS; visits += AT_ONCE)
      await Promise.all(Array.from({ length: AT_ONCE }, visit))
    assert.ok(finished > 0 && finished < VISITS, `${finished} of ${VISITS} got bytes of an answer`)
    for (const name of ['sluice_in_flight_requests', 'sluice_held_usd', 'sluice_memory_bytes{part="bodies"}'])
      await until(`no ${name}`, async () => ((await metric(name)) === 0 ? true : undefined))
    await until('the connections to be closed', async () =>
      (await metric('sluice_connections')) <= connectionsBefore ? true : undefined,
    )
    const { held_quota } = await relay.must(relay.api('GET', `/api/token/${id}`))
    assert.equal(held_quota, 0)
    const { body } = await relay.api('GET', '/api/ledger/verify')
    assert.equal(body.data.ok, true)
  })

  it('stops after running requests, closes idle connections, and accepts no new ones', async () => {
    const gateway = await startGateway({ engine: 'sqlite', http, env: { SLUICE_DRAIN_S: '60' } })
    const { url } = await gateway.simulator()
    const resources = createResources(gateway.api, url)
    const { model } = await resources.serve(['sim-words-20-pace-20'])
    const { model: quick } = await resources.serve(['sim-words-2'])
    const { key } = await resources.newToken()
    const port = Number(new URL(gateway.url).port)
    const idle = await openClient(port)
    idle.socket.write(ask(key, question(quick)))
    await until('an answer', () => (idle.text().endsWith('}') ? true : undefined))
    const busy = await openClient(port)
    busy.socket.write(ask(key, question(model, { stream: true })))
    await until('an event', () => (busy.text().includes('data: ') ? true : undefined))
    const closing = gateway.close()
    await idle.closed
    assert.ok(!busy.isClosed())
    await busy.closed
    assert.match(busy.text(), /data: \[DONE\]\n\n\r\n0\r\n\r\n$/)
    await closing
    await assert.rejects(openClient(port))
  })
})
