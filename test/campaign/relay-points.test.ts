import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { request } from 'undici'
import { type Simulator, startSimulator } from '../../simulator/server.ts'
import type { Store } from '../../src/store/engine/store.ts'
import { ENGINES } from '../support/gateway.ts'
import { KILL_HEADER, killable } from '../support/kill-names.ts'
import {
  launch,
  lookInto,
  newDirectory,
  newGround,
  type Server,
  type ServerOptions,
  settingsOf,
  startServer,
  until,
  untilSessionsEnded,
  verifyThroughSocket,
} from '../support/process.ts'
import { createFurnisher, OUTPUT_NANOS } from '../support/relay.ts'
import { type Accounts, breaches, priceOf, readAccounts } from '../support/relay-laws.ts'
import { PROMPT } from '../support/relay-storm.ts'

const isCampaign = process.env.SLUICE_CAMPAIGN !== undefined

/** What a kill leaves of a request after the gateway has restarted. */
type Left =
  /** Never sent: released, no entry in the ledger. */
  | 'nothing'
  /**
   * Possibly sent, and nothing delivered according to the journal: the user pays nothing, the estimate is an
   * unresolved charge.
   */
  | 'a doubt'
  /** Delivered in part: the input and the last recorded progress are charged. */
  | 'a part'
  /** Settled: charged in full. */
  | 'the price'

type Point = {
  readonly at: string
  readonly whole?: Left
  readonly stream?: Left
  /** How much the client receives; nothing if absent. */
  readonly sees?: 'a part' | 'all'
  /** Whether the provider never receives the request; it does if absent. */
  readonly isUnheard?: true
  readonly isSlow?: true
}

/** Every kill point of a request, in order. */
const POINTS: readonly Point[] = [
  { at: 'request arrived', whole: 'nothing', stream: 'nothing', isUnheard: true },
  { at: 'within the lease', whole: 'nothing', stream: 'nothing', isUnheard: true },
  { at: 'after the lease is committed', whole: 'nothing', stream: 'nothing', isUnheard: true },
  { at: 'before the attempt is committed', whole: 'nothing', stream: 'nothing', isUnheard: true },
  { at: 'after the attempt is committed', whole: 'a doubt', stream: 'a doubt', isUnheard: true },
  { at: 'before the dispatch', whole: 'a doubt', stream: 'a doubt', isUnheard: true },
  { at: 'after the dispatch', whole: 'a doubt', stream: 'a doubt', isSlow: true },
  { at: 'when the provider answers', whole: 'a doubt', stream: 'a doubt' },
  { at: 'before the first byte', whole: 'the price', stream: 'a doubt' },
  // The first progress follows the first byte in the same event loop turn: a kill between the two is in the
  // user's favour.
  { at: 'after the first byte', stream: 'a doubt', sees: 'a part' },
  { at: 'before the progress is committed', stream: 'a doubt', sees: 'a part' },
  { at: 'after the progress is committed', stream: 'a part', sees: 'a part' },
  { at: 'before the settle is committed', whole: 'a doubt' },
  { at: 'before the settle is committed', stream: 'a part', sees: 'a part' },
  { at: 'after the settle is committed', whole: 'the price' },
  { at: 'after the settle is committed', stream: 'the price', sees: 'a part' },
  { at: 'after the last byte', whole: 'the price', stream: 'the price', sees: 'all' },
  { at: 'within the apply', whole: 'the price', stream: 'the price', sees: 'all' },
  { at: 'before the apply is committed', whole: 'the price', stream: 'the price', sees: 'all' },
  { at: 'after the apply is committed', whole: 'the price', stream: 'the price', sees: 'all' },
]

/** Where recovery itself is killed, one start after the other, before one may complete. */
const RECOVERY = [
  'within the opening of the node',
  'after the opening of the node is committed',
  'before the settle is committed',
  'after the settle is committed',
  'within the apply',
  'before the apply is committed',
  'after the apply is committed',
  'within the return of all leases',
  'before the return of all leases is committed',
  'after the return of all leases is committed',
]

const CASES = POINTS.flatMap(point =>
  (['whole', 'stream'] as const).flatMap(how => {
    const left = point[how]
    return left === undefined ? [] : [{ ...point, how, left }]
  }),
)

/** The whole campaign, or a different share of it for each engine. */
const shareOf = <T>(all: readonly T[], engineIndex: number, each: number) =>
  all.filter((_, index) => isCampaign || index % each === engineIndex)

const SETTLED_MS = 10_000
/** A start may take long on a busy machine. */
const KILLED_MS = 60_000

/** What the client received until the connection broke or the response ended. */
async function askAt(server: Server, key: string, model: string, isStream: boolean, at: string) {
  let text = ''
  try {
    const response = await request(`${server.url}/v1/chat/completions`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${key}`,
        'content-type': 'application/json',
        // A request with this header is served by node:http, which has the points of the response.
        te: 'trailers',
        [KILL_HEADER]: at,
      },
      body: JSON.stringify({
        model,
        messages: [{ role: 'user', content: PROMPT }],
        max_tokens: 50,
        ...(isStream ? { stream: true } : {}),
      }),
    })
    for await (const chunk of response.body) text += chunk
  } catch {
    // The gateway was killed: what was received before counts.
  }
  const isAll = isStream ? text.endsWith('data: [DONE]\n\n') : text.endsWith('}')
  return { text, sees: text === '' ? undefined : isAll ? 'all' : 'a part' }
}

for (const [engineIndex, engine] of ENGINES.entries())
  describe(`kill -9 at a named point on ${engine} (docs/reference/money.md: Crash recovery)`, () => {
    let simulator: Simulator
    let server: Server
    let ground: ServerOptions
    let countFile: string
    const models = { whole: '', stream: '', slow: '' }
    /**
     * The unresolved charge when a provider breaks off such a request: its input, as the gateway estimates
     * it.
     */
    const estimate = { whole: 0, stream: 0 }
    let key: string

    before(async () => {
      countFile = join(newDirectory(), 'count')
      simulator = await startSimulator({ countFile })
      ground = { ...(await newGround(engine)), env: killable() }
      server = await startServer(ground)
      const { serve, newToken } = createFurnisher(server.api, simulator.url)
      models.whole = (await serve('sim-words-12')).model
      models.stream = (await serve('sim-words-12-pace-10')).model
      models.slow = (await serve('sim-words-12-latency-3000')).model
      key = (await newToken({ remain_quota: 500_000_000 })).key
      const { model: cutOff } = await serve('sim-reset')
      await askAt(server, key, cutOff, false, 'nowhere')
      await askAt(server, key, cutOff, true, 'nowhere')
      const [ofWhole, ofStream] = await lookInto(ground, store =>
        until('both doubts', async () => {
          const { doubts } = await readFrom(store)
          return doubts.length === 2 ? doubts.toSorted((one, other) => one.id - other.id) : undefined
        }),
      )
      estimate.whole = Number(ofWhole?.amount)
      estimate.stream = Number(ofStream?.amount)
      await server.stop()
      server = await startServer(ground)
    })
    after(async () => {
      await server.kill()
      await simulator.close()
    })

    const readFrom = (store: Store) => readAccounts(store, [], countFile)
    const read = () => lookInto(ground, readFrom)

    /** What is new in the ledger and in the provider's count, once every invariant holds again. */
    const newsSince = (earlier: Accounts, lines: number) =>
      lookInto(ground, async store => {
        const deadline = Date.now() + SETTLED_MS
        for (;;) {
          const now = await readFrom(store)
          const broken = breaches(now)
          const entries = now.entries.slice(earlier.entries.length)
          const isSettled = broken.length === 0 && now.lines.length >= earlier.lines.length + lines
          if (isSettled || Date.now() > deadline) {
            assert.deepEqual(broken, [])
            return {
              entries,
              doubts: now.doubts.slice(earlier.doubts.length),
              lines: now.lines.slice(earlier.lines.length),
            }
          }
          await delay(50)
        }
      })

    async function mustBeKilled(ended: Server['ended'], at: string, told = ''): Promise<void> {
      const how = await Promise.race([ended, delay(KILLED_MS, undefined, { ref: false })])
      assert.ok(how, `the walk never came to the point "${at}"; the client was told: ${told}`)
      assert.equal(how.signal, 'SIGKILL', how.stderr)
    }

    async function mustHave(
      left: Left,
      how: 'whole' | 'stream',
      earlier: Accounts,
      lines: number,
    ): Promise<void> {
      const news = await newsSince(earlier, lines)
      const amounts = news.entries.map(({ amount }) => amount)
      assert.equal(news.lines.length, lines)
      assert.equal(news.doubts.length, left === 'a doubt' ? 1 : 0)
      if (left === 'nothing') assert.deepEqual(amounts, [])
      else if (left === 'a doubt') {
        assert.deepEqual(amounts, [0])
        assert.deepEqual(
          news.doubts.map(({ amount }) => amount),
          [estimate[how]],
        )
      } else if (left === 'the price') assert.deepEqual(amounts, news.lines.map(priceOf))
      else {
        const [amount = 0] = amounts
        assert.equal(amounts.length, 1)
        // The stream is shorter than the interval between two progress records, so the first is the last.
        const output = amount - estimate[how]
        assert.ok(output >= 0 && output <= 4 * OUTPUT_NANOS, `${amount}`)
      }
      assert.ok((await verifyThroughSocket(ground)).ok)
    }

    for (const { at, how, left, sees, isUnheard, isSlow } of shareOf(CASES, engineIndex, 9))
      it(`${at}, ${how === 'whole' ? 'a non-streamed response' : 'a stream'}: leaves ${left}`, async () => {
        const earlier = await read()
        const model = isSlow ? models.slow : models[how]
        const seen = await askAt(server, key, model, how === 'stream', at)
        await mustBeKilled(server.ended, at, seen.text)
        const killed = new Date()
        server = await startServer(ground)
        await untilSessionsEnded(ground, killed)
        assert.equal(seen.sees, sees, seen.text)
        await mustHave(left, how, earlier, isUnheard ? 0 : 1)
      })

    it('during recovery, repeatedly, ends with the same ledger', async () => {
      const earlier = await read()
      const at = 'after the progress is committed'
      await askAt(server, key, models.stream, true, at)
      await mustBeKilled(server.ended, at)
      for (const point of shareOf(RECOVERY, engineIndex, 5)) {
        const starting = launch(['start'], { env: { ...settingsOf(ground), ...killable(point) } })
        await mustBeKilled(starting.ended, point)
      }
      const killed = new Date()
      server = await startServer(ground)
      await untilSessionsEnded(ground, killed)
      await mustHave('a part', 'stream', earlier, 1)
    })
  })
