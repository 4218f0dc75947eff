import assert from 'node:assert/strict'
import { cpSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { startSimulator } from '../../../simulator/server.ts'
import { type Balancer, startBalancer, startHaproxy } from '../../support/balancer.ts'
import { retryingFetch } from '../../support/client.ts'
import { freePort } from '../../support/free-port.ts'
import {
  newDirectory,
  newGround,
  type Server,
  startServer,
  until,
  verifyThroughSocket,
} from '../../support/process.ts'
import { programPath, skipWithout } from '../../support/programs.ts'
import { createResources } from '../../support/relay.ts'

const NODES = 3
const CLIENTS = 4
/** Between two requests of a client: enough requests run at every moment, and the nodes get processor time to start. */
const PAUSE_MS = 80

/** The places of three nodes on one database, with fixed ports; the first node has two workers. */
async function newFleet() {
  const ground = await newGround('postgres')
  const places = await Promise.all(
    Array.from({ length: NODES }, async (_each, at) => {
      const dataDir = at === 0 ? ground.dataDir : join(newDirectory(), 'data')
      if (at > 0) cpSync(join(ground.dataDir, 'secret'), join(dataDir, 'secret'))
      const port = await freePort()
      const env = { PORT: String(port), SLUICE_DRAIN_DELAY_S: '4', SLUICE_WORKERS: at === 0 ? '2' : '1' }
      return { ...ground, dataDir, env, port }
    }),
  )
  return { places, ports: places.map(({ port }) => port) }
}

type Outcome = { readonly isFailed: boolean; readonly text: string }

/** Sends requests one after another, streams and others, until it is stopped. It retries nothing but what a busy node refuses. */
function startLoad(url: string, key: string, models: readonly string[]) {
  const outcomes: Outcome[] = []
  let isStopped = false
  async function ask(turn: number): Promise<Outcome> {
    const body = {
      model: models[turn % models.length],
      stream: turn % 2 === 0,
      max_tokens: 50,
      messages: [{ role: 'user', content: 'Hi' }],
    }
    try {
      const response = await retryingFetch(`${url}/v1/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: JSON.stringify(body),
      })
      const text = await response.text()
      const isWhole = body.stream ? text.endsWith('data: [DONE]\n\n') : text.endsWith('}')
      return { isFailed: response.status !== 200 || !isWhole, text: `${response.status} ${text}` }
    } catch (error) {
      return { isFailed: true, text: String((error as Error).cause ?? error) }
    }
  }
  const clients = Array.from({ length: CLIENTS }, async (_each, client) => {
    for (let turn = client; !isStopped; turn++) {
      outcomes.push(await ask(turn))
      await delay(PAUSE_MS)
    }
  })
  return {
    count: () => outcomes.length,
    async stop(): Promise<readonly Outcome[]> {
      isStopped = true
      await Promise.all(clients)
      return outcomes
    },
  }
}

const PROXIES: Readonly<Record<string, (ports: readonly number[]) => Promise<Balancer>>> = {
  'a proxy': startBalancer,
  HAProxy: startHaproxy,
}

/** Both proxies in a campaign; else HAProxy, or the proxy of the tests where it is not installed. */
function reasonToSkip(name: string): string | false {
  if (name === 'HAProxy') return skipWithout(import.meta.filename, 'haproxy')
  const isHaproxyUsed = process.env.SLUICE_CAMPAIGN === undefined && programPath('haproxy') !== undefined
  return isHaproxyUsed && 'HAProxy is installed'
}

describe('a rolling restart of three nodes on one PostgreSQL', () => {
  for (const [name, start] of Object.entries(PROXIES))
    it(`fails no request behind ${name} that retries nothing`, {
      skip: reasonToSkip(name),
    }, async test => {
      const simulator = await startSimulator()
      test.after(simulator.close)
      const { places, ports } = await newFleet()
      const nodes: Server[] = []
      const balancer = await start(ports)
      test.after(balancer.close)
      const isUp = (port: number) =>
        until('a node to get requests', async () => ((await balancer.isUp(port)) ? true : undefined))
      const first = await startServer(places[0] as (typeof places)[number])
      nodes.push(first)
      const { must, serve, newToken } = createResources(first.api, simulator.url)
      const { model: quick } = await serve(['sim-words-3'])
      const { model: slow } = await serve(['sim-words-10-pace-20'])
      const { key, id } = await newToken({ unlimited_quota: true })
      for (const place of places.slice(1)) nodes.push(await startServer(place))
      for (const port of ports) await isUp(port)
      const load = startLoad(balancer.url, key, [quick, quick, slow])
      const more = (requests: number) => {
        const target = load.count() + requests
        return until('more requests', () => (load.count() >= target ? true : undefined))
      }
      for (const [at, place] of places.entries()) {
        await more(10)
        const { code } = await (nodes[at] as Server).stop()
        assert.equal(code, 0)
        nodes[at] = await startServer(place)
        await isUp(place.port)
      }
      await more(10)
      const outcomes = await load.stop()
      const failed = outcomes.filter(({ isFailed }) => isFailed).map(({ text }) => text)
      assert.deepEqual(failed.slice(0, 5), [], `${failed.length} of ${outcomes.length} requests failed`)

      // Clients and ledger agree.
      const [node] = nodes
      assert.ok(node)
      await until('a row for each request', async () => {
        const { total } = await must(node.api('GET', `/api/log/?type=2&token_id=${id}`))
        return total === outcomes.length ? true : undefined
      })
      for (const place of places) assert.ok((await verifyThroughSocket(place)).ok)
      for (const each of nodes) assert.equal((await each.stop()).code, 0)
    })
})
