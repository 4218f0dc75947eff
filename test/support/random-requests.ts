import assert from 'node:assert/strict'
import { setTimeout as delay } from 'node:timers/promises'
import { Pool } from 'undici'
import { type Api, createApi } from './gateway.ts'
import { type Server, until } from './process.ts'
import type { Draw } from './random-writes.ts'
import { createResources } from './relay.ts'
import { WAIT_MS } from './wait.ts'

export const PROMPT = 'How are you today, and what is new on the river?'

/** A kind of request, and how the simulated provider handles it. */
type Shape = {
  /** The simulator's models, a channel for each, in this order. */
  readonly sent: readonly string[]
  readonly isStream: boolean
  readonly weight: number
  /** The client disconnects: before any response, or with the first bytes. */
  readonly leaves?: 'before' | 'during'
  /** The provider reports no usage, so the gateway counts. */
  readonly isCounted?: boolean
}

const SHAPES = {
  whole: { sent: ['sim-words-6'], isStream: false, weight: 5 },
  slow: { sent: ['sim-words-6-latency-60'], isStream: false, weight: 2 },
  short: { sent: ['sim-words-8'], isStream: true, weight: 4 },
  long: { sent: ['sim-words-40-pace-8'], isStream: true, weight: 5 },
  counted: { sent: ['sim-words-9-nousage'], isStream: true, weight: 1, isCounted: true },
  flaky: { sent: ['sim-words-7-flaky-30', 'sim-words-7'], isStream: false, weight: 2 },
  reset: { sent: ['sim-reset', 'sim-words-5'], isStream: true, weight: 1 },
  dead: { sent: ['sim-status-500'], isStream: false, weight: 1 },
  cut: { sent: ['sim-words-20-pace-4-cut-9'], isStream: true, weight: 1 },
  leaver: { sent: ['sim-words-40-pace-8'], isStream: true, weight: 2, leaves: 'during' },
  hasty: { sent: ['sim-words-6-latency-400'], isStream: false, weight: 1, leaves: 'before' },
} as const satisfies Record<string, Shape>

type ShapeName = keyof typeof SHAPES
const SHAPE_NAMES = Object.keys(SHAPES) as ShapeName[]
const DEALT = SHAPE_NAMES.flatMap(name => Array.from({ length: SHAPES[name].weight }, () => name))

/** What a client knows of one request. */
export type RequestOutcome = {
  readonly shape: ShapeName
  readonly isCounted: boolean
  readonly isPoor: boolean
  /** Unknown if the connection broke before a response started. */
  readonly requestId: string | undefined
  readonly status: number | undefined
  readonly code: string | undefined
  /** From the response header; streams have none. */
  readonly cost: string | undefined
  /** `refused`: an error response; `broken`: a stream that ended with an error. */
  readonly ending: 'whole' | 'refused' | 'broken' | 'left' | 'cut'
}

export type Payer = { readonly tokenId: number; readonly key: string; readonly isPoor: boolean }
type Traffic = {
  readonly payers: readonly Payer[]
  readonly models: ReadonlyMap<ShapeName, string>
  /** Adds the initial quota again to the accounts with little quota. */
  refill(api: Api): Promise<void>
}

const HANDS = 12
const RICH_UNITS = 500_000_000
/** Enough for some requests and no more. */
const POOR_UNITS = 300
const MOST_LEAVE_MS = 120

const PASSWORD = 'a long password'

/** Tokens of root and of two users: limited and unlimited, with much and little quota. */
async function addContent({ url, api }: Server, upstream: string): Promise<Traffic> {
  const { must, serve, newToken } = createResources(api, upstream)
  const models = new Map<ShapeName, string>()
  for (const name of SHAPE_NAMES) models.set(name, (await serve(SHAPES[name].sent)).model)
  const payers: Payer[] = []
  const add = async (isPoor: boolean, fields: Readonly<Record<string, unknown>>, accessToken?: string) => {
    const token = await newToken(fields, accessToken)
    payers.push({ tokenId: token.id, key: token.key, isPoor })
    return token
  }
  await add(false, { unlimited_quota: true })
  await add(false, { remain_quota: RICH_UNITS })
  const poorToken = (await add(true, { remain_quota: POOR_UNITS })).id
  const userIds: number[] = []
  for (const [username, quota] of [
    ['rich', RICH_UNITS],
    ['poor', POOR_UNITS],
  ] as const) {
    userIds.push((await must(api('POST', '/api/user/', { username, password: PASSWORD, quota }))).id)
    const accessToken = await signIn(url, username)
    await add(username === 'poor', { unlimited_quota: true }, accessToken)
    await add(username === 'poor', { remain_quota: RICH_UNITS }, accessToken)
  }
  return {
    payers,
    models,
    async refill(again) {
      // A connection that died silently may hold its row locks until PostgreSQL ends its session.
      const change = (path: string, body: object) =>
        until(`PUT ${path} to be accepted`, async () => {
          const { status, text } = await again('PUT', path, body)
          if (status === 503) return undefined
          assert.equal(status, 200, text)
          return true
        })
      await change('/api/token/', { id: poorToken, remain_quota: POOR_UNITS })
      await change('/api/user/', { id: userIds[1], quota: POOR_UNITS })
    },
  }
}

/** A user's own access token, as the console would get it. */
async function signIn(url: string, username: string): Promise<string> {
  const signedIn = await fetch(`${url}/api/user/login`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ username, password: PASSWORD }),
  })
  const cookie = (signedIn.headers.get('set-cookie') ?? '').split(';')[0] ?? ''
  const tokenReply = await createApi(url, '')(
    'POST',
    '/api/user/access_token/',
    { name: 'random-requests' },
    { token: null, headers: { cookie, 'sec-fetch-site': 'same-origin' } },
  )
  if (tokenReply.status !== 200) throw new Error(`no access token: ${tokenReply.text}`)
  return tokenReply.body.data.token
}

/** Relay clients that record their responses, through any number of server restarts. */
export async function createRandomRequests(draw: Draw, server: Server, upstream: string) {
  const traffic = await addContent(server, upstream)
  const outcomes: RequestOutcome[] = []

  /** One request from its first byte to its end, however it ends. */
  async function ask(pool: Pool): Promise<RequestOutcome> {
    const payer = draw.pick(traffic.payers)
    const name = draw.pick(DEALT)
    const shape: Shape = SHAPES[name]
    const base = { shape: name, isCounted: shape.isCounted === true, isPoor: payer.isPoor }
    const leaving = new AbortController()
    const leaveAfterMs = draw.whole(0, MOST_LEAVE_MS)
    const timer = shape.leaves === 'before' ? setTimeout(() => leaving.abort(), leaveAfterMs) : undefined
    let head: Pick<RequestOutcome, 'requestId' | 'status' | 'cost'> = {
      requestId: undefined,
      status: undefined,
      cost: undefined,
    }
    let text = ''
    try {
      const response = await pool.request({
        method: 'POST',
        path: '/v1/chat/completions',
        headers: { authorization: `Bearer ${payer.key}`, 'content-type': 'application/json' },
        body: JSON.stringify({
          model: traffic.models.get(name),
          messages: [{ role: 'user', content: PROMPT }],
          max_tokens: 50,
          ...(shape.isStream ? { stream: true } : {}),
        }),
        signal: leaving.signal,
        headersTimeout: WAIT_MS,
        bodyTimeout: WAIT_MS,
      })
      head = {
        requestId: String(response.headers['x-request-id']),
        status: response.statusCode,
        cost: response.headers['x-sluice-cost'] as string | undefined,
      }
      for await (const chunk of response.body) {
        text += chunk
        if (shape.leaves === 'during') await delay(leaveAfterMs).then(() => leaving.abort())
      }
    } catch {
      return { ...base, ...head, code: undefined, ending: leaving.signal.aborted ? 'left' : 'cut' }
    } finally {
      clearTimeout(timer)
    }
    if (head.status !== 200)
      return { ...base, ...head, code: JSON.parse(text).error?.code, ending: 'refused' }
    const isWhole = !shape.isStream || text.endsWith('data: [DONE]\n\n')
    return { ...base, ...head, code: undefined, ending: isWhole ? 'whole' : 'broken' }
  }

  return {
    ...traffic,
    told: outcomes,
    /** Sends requests with all clients until `stop`; resolves when the last request has ended. */
    start(url: string, hands = HANDS) {
      const pool = new Pool(url, { connections: hands, allowH2: false, connectTimeout: WAIT_MS })
      let isOver = false
      const hand = async () => {
        while (!isOver) {
          const each = await ask(pool)
          outcomes.push(each)
          // The gateway is down for a moment, or no account can pay: an immediate retry would only use the
          // processor.
          if (each.ending === 'cut' || each.ending === 'refused') await delay(draw.whole(1, 20))
        }
      }
      const done = Promise.all(Array.from({ length: hands }, hand)).then(() => pool.destroy())
      return {
        done,
        stop(): Promise<void> {
          isOver = true
          return done
        },
        /** Resolves when this many more responses have arrived. */
        async answered(count: number): Promise<void> {
          const enough = outcomes.length + count
          await until('the random requests', () => (outcomes.length >= enough ? true : undefined))
        },
      }
    },
  }
}

export type RandomRequests = Awaited<ReturnType<typeof createRandomRequests>>
