import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { request } from 'undici'
import { type Simulator, startSimulator } from '../../simulator/server.ts'
import type { Store } from '../../src/store/engine/store.ts'
import type { EngineName } from './gateway.ts'
import { KILL_HEADER, killable } from './kill-names.ts'
import {
  type Launched,
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
} from './process.ts'
import { PROMPT } from './random-requests.ts'
import { createResources, OUTPUT_NANOS } from './relay.ts'
import { type Accounts, breaches, priceOf, readAccounts } from './relay-laws.ts'

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
export const RECOVERY_POINTS = [
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

export type KillCase = Point & { readonly how: 'whole' | 'stream'; readonly left: Left }

/** Every kill point of a request, with a response that is streamed or not. */
export const KILL_CASES: readonly KillCase[] = POINTS.flatMap(point =>
  (['whole', 'stream'] as const).flatMap(how => {
    const outcome = point[how]
    return outcome === undefined ? [] : [{ ...point, how, left: outcome }]
  }),
)

type KillCampaign = {
  readonly engine: EngineName
  readonly cases: readonly KillCase[]
  /** Points of the recovery; it is not killed if there are none. */
  readonly recovery?: readonly string[]
}

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

/** The suite of a gateway that is killed at named points. */
export function describeKills({ engine, cases, recovery = [] }: KillCampaign): void {
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
      const { serve, newToken } = createResources(server.api, simulator.url)
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
        let now = await readFrom(store)
        await until('the books to be settled', async () => {
          now = await readFrom(store)
          const isSettled = breaches(now).length === 0 && now.lines.length >= earlier.lines.length + lines
          return isSettled ? true : undefined
        }).catch(error => {
          // The broken invariants, or the missing lines, say more than the wait.
          assert.deepEqual(breaches(now), [])
          throw error
        })
        return {
          entries: now.entries.slice(earlier.entries.length),
          doubts: now.doubts.slice(earlier.doubts.length),
          lines: now.lines.slice(earlier.lines.length),
        }
      })

    async function mustBeKilled(program: Launched, at: string, response = ''): Promise<void> {
      await until(`the kill at the point "${at}"; the client received: ${response}`, () =>
        program.isRunning() ? undefined : true,
      )
      const { signal, stderr } = await program.ended
      assert.equal(signal, 'SIGKILL', stderr)
    }

    async function mustHave(
      outcome: Left,
      how: 'whole' | 'stream',
      earlier: Accounts,
      lines: number,
    ): Promise<void> {
      const news = await newsSince(earlier, lines)
      const amounts = news.entries.map(({ amount }) => amount)
      assert.equal(news.lines.length, lines)
      assert.equal(news.doubts.length, outcome === 'a doubt' ? 1 : 0)
      if (outcome === 'nothing') assert.deepEqual(amounts, [])
      else if (outcome === 'a doubt') {
        assert.deepEqual(amounts, [0])
        assert.deepEqual(
          news.doubts.map(({ amount }) => amount),
          [estimate[how]],
        )
      } else if (outcome === 'the price') assert.deepEqual(amounts, news.lines.map(priceOf))
      else {
        const [amount = 0] = amounts
        assert.equal(amounts.length, 1)
        // The stream is shorter than the interval between two progress records, so the first is the last.
        const output = amount - estimate[how]
        assert.ok(output >= 0 && output <= 4 * OUTPUT_NANOS, `${amount}`)
      }
      assert.ok((await verifyThroughSocket(ground)).ok)
    }

    for (const { at, how, left: outcome, sees, isUnheard, isSlow } of cases)
      it(`${at}, ${how === 'whole' ? 'a non-streamed response' : 'a stream'}: leaves ${outcome}`, async () => {
        const earlier = await read()
        const model = isSlow ? models.slow : models[how]
        const response = await askAt(server, key, model, how === 'stream', at)
        await mustBeKilled(server, at, response.text)
        const killed = new Date()
        server = await startServer(ground)
        await untilSessionsEnded(ground, killed)
        assert.equal(response.sees, sees, response.text)
        await mustHave(outcome, how, earlier, isUnheard ? 0 : 1)
      })

    if (recovery.length > 0)
      it('during recovery, repeatedly, ends with the same ledger', async () => {
        const earlier = await read()
        const at = 'after the progress is committed'
        await askAt(server, key, models.stream, true, at)
        await mustBeKilled(server, at)
        for (const point of recovery) {
          const starting = launch(['start'], { env: { ...settingsOf(ground), ...killable(point) } })
          await mustBeKilled(starting, point)
        }
        const killed = new Date()
        server = await startServer(ground)
        await untilSessionsEnded(ground, killed)
        await mustHave('a part', 'stream', earlier, 1)
      })
  })
}
