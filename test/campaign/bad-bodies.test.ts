import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import diagnostics from 'node:diagnostics_channel'
import { after, before, describe, it } from 'node:test'
import { crc32 } from 'node:zlib'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { contract } from '../../src/manage/contract/index.ts'
import type { Route } from '../../src/manage/contract/route.ts'
import { parseJson } from '../../src/wire/json.ts'
import { type Body, CONTROL_TEXTS, corrupted, ODD_TEXTS } from '../support/corruption.ts'
import { type Gateway, oneEngine, ROOT_TOKEN, suiteGateway } from '../support/gateway.ts'
import '../support/own-process.ts'
import { fc } from '../support/properties.ts'
import {
  type RouteRequest,
  type RouteResponse,
  type Send,
  sendAll,
  sendInto,
  sendOverHttp,
} from '../support/route-requests.ts'
import { createTableDigests, type TableDigests } from '../support/tables.ts'

const isCampaign = process.env.SLUICE_CAMPAIGN !== undefined

/**
 * How many invalid bodies are sent to each write route, and how many unusual bodies that the contract allows.
 */
const COUNTS = isCampaign ? { bad: 1_000, odd: 200 } : { bad: 20, odd: 5 }

/** The objects that the valid bodies name. */
type Things = {
  readonly tokenId: number
  readonly userId: number
  readonly channelId: number
  readonly aliasId: number
}

const TOKEN = {
  name: 'name',
  remain_quota: 500,
  expired_time: -1,
  unlimited_quota: false,
  model_limits_enabled: true,
  models: ['gpt-4o', 'claude-sonnet-4-5'],
  allow_ips: ['127.0.0.1', '10.0.0.0/8'],
  group: 'default',
  limits: { rpm: 60, tpm: null, concurrency: 5 },
}
/** An address where no provider listens. */
const NOBODY = 'http://127.0.0.1:9'
const CHANNEL = {
  name: 'name',
  type: 1,
  key: 'first key\nsecond key',
  base_url: NOBODY,
  models: ['gpt-4o', 'gpt-4o-mini'],
  model_mapping: { 'gpt-4o-mini': 'gpt-4o' },
  priority: 5,
  weight: 1,
  status: 1,
  tag: 'a tag',
  group: 'default',
  auto_ban: 1,
  test_model: 'gpt-4o',
  param_override: { temperature: 0 },
  header_override: { 'x-header': 'value' },
  status_code_mapping: { '400': '500' },
  setting: { timeouts: { connect_ms: 10_000 } },
  openai_organization: 'org',
  other: '',
  remark: 'a remark',
  limits: { rpm: 60 },
}
const { name: _name, type: _type, key: _key, ...SHARED } = CHANNEL
const ALERT_RULE = {
  name: 'name',
  enabled: false,
  threshold: 5,
  window_seconds: 600,
  min_requests: 10,
  for_seconds: 60,
  repeat_seconds: 3_600,
  target_ids: null,
  subject_ids: [1],
  quiet_from: '22:00',
  quiet_to: '07:00',
  time_zone: 'Europe/Berlin',
}
const ALERT_TARGET = {
  name: 'name',
  enabled: false,
  url: `${NOBODY}/hook`,
  secret: 'a secret of a webhook',
  bot_token: '',
  chat_id: '',
  to: ['person@example.com'],
  language: 'en',
  group_seconds: 30,
}
const PERSON = { display_name: 'A Person', email: 'person@example.com' }

/**
 * A valid body for every write route that accepts one: a route that is missing here fails the first test
 * below.
 */
const GOOD: Readonly<Record<string, (things: Things) => object>> = {
  login: () => ({ username: 'somebody', password: 'not the password' }),
  register: () => ({ username: 'newcomer', password: 'a new password', ...PERSON }),
  updateSelf: () => ({
    username: 'root',
    display_name: 'Root',
    password: 'another password',
    original_password: 'not the password',
  }),
  createAccessToken: () => ({ name: 'name', expired_time: -1 }),

  createUser: () => ({
    username: 'newcomer',
    password: 'a new password',
    ...PERSON,
    role: 1,
    quota: 500,
    unlimited_quota: false,
    group: 'default',
    limits: { rpm: 60, tpm: null, concurrency: 5 },
  }),
  updateUser: ({ userId }) => ({
    id: userId,
    username: 'renamed',
    ...PERSON,
    password: 'another password',
    role: 1,
    status: 1,
    quota: 500,
    unlimited_quota: false,
    limits: { rpm: 60 },
  }),
  manageUser: ({ userId }) => ({ id: userId, action: 'add_quota', value: 5, mode: 'add', reason: 'a gift' }),

  createToken: () => TOKEN,
  updateToken: ({ tokenId }) => ({ id: tokenId, status: 1, ...TOKEN }),
  deleteTokens: ({ tokenId }) => ({ ids: [tokenId, tokenId + 1] }),
  revealTokens: ({ tokenId }) => ({ ids: [tokenId, tokenId + 1] }),

  updateSettings: () => ({ registration: false, attempts: 5, default_video_model: 'sora-2' }),
  updateOption: () => ({ key: 'attempts', value: '5' }),

  createChannel: () => ({ mode: 'multi_to_single', channel: CHANNEL }),
  updateChannel: ({ channelId }) => ({ id: channelId, ...CHANNEL, key_mode: 'append' }),
  setChannelStatus: () => ({ status: 1 }),
  setChannelStatuses: ({ channelId }) => ({ ids: [channelId], status: 'disabled' }),
  editChannels: ({ channelId }) => ({
    ids: [channelId],
    fields: SHARED,
    add_models: ['more'],
    remove_models: ['less'],
  }),
  deleteChannels: ({ channelId }) => ({ ids: [channelId + 1_000, channelId + 1_001] }),
  setChannelKeyStatus: () => ({ status: 2 }),
  manageChannelKeys: ({ channelId }) => ({
    channel_id: channelId,
    action: 'get_key_status',
    key_index: 0,
    page: 1,
    page_size: 10,
    status: 1,
  }),
  enableTag: () => ({ tag: 'a tag' }),
  disableTag: () => ({ tag: 'a tag' }),
  updateTag: () => ({
    tag: 'a tag',
    new_tag: 'another tag',
    priority: 1,
    weight: 1,
    models: ['gpt-4o'],
    model_mapping: { 'gpt-4o': 'gpt-4o-2024-08-06' },
    groups: 'default',
    param_override: { temperature: 0 },
    header_override: { 'x-header': 'value' },
  }),
  tagChannels: ({ channelId }) => ({ ids: [channelId], tag: 'a tag' }),
  fetchModels: () => ({ type: 1, base_url: NOBODY, key: 'a provider key', setting: {}, other: '' }),

  createAlias: ({ channelId }) => ({ name: 'fast', target: 'gpt-4o', channel_ids: [channelId], status: 1 }),
  updateAlias: ({ aliasId }) => ({
    id: aliasId,
    name: 'slow',
    target: 'gpt-4o',
    channel_ids: null,
    status: 2,
  }),

  startCanary: ({ channelId, tokenId }) => ({
    kind: 'channel',
    channel_id: channelId,
    changes: { weight: 3 },
    share: 5,
    split_by: 'token',
    token_ids: [tokenId],
    note: 'a note',
  }),
  updateCanary: () => ({
    id: 1,
    share: 10,
    split_by: 'request',
    token_ids: null,
    until: null,
    note: 'a note',
  }),
  promoteCanary: () => ({ reason: 'a reason', force: true, effective_time: 0 }),
  dropCanary: () => ({ reason: 'a reason' }),

  createAlertRule: () => ({ kind: 'error_rate', ...ALERT_RULE }),
  updateAlertRule: () => ({ id: 1, ...ALERT_RULE }),
  createAlertTarget: () => ({ type: 'webhook', ...ALERT_TARGET }),
  updateAlertTarget: () => ({ id: 1, ...ALERT_TARGET }),
  dismissAttention: () => ({ item: '0'.repeat(32), is_dismissed: true }),

  createTest: () => ({
    request_id: `req_${'0'.repeat(26)}`,
    name: 'a test',
    check: { kind: 'contains', value: 'Paris' },
  }),
  updateTest: () => ({ id: 1, name: 'a test', check: { kind: 'matches', value: 'P.*s' } }),
  runTests: ({ channelId }) => ({ test_ids: [1], model: 'gpt-4o', channel_id: channelId }),
  replay: ({ channelId }) => ({
    request_id: `req_${'0'.repeat(26)}`,
    model: 'gpt-4o',
    channel_id: channelId,
  }),

  rollbackConfig: () => ({ reason: 'it failed', dry_run: true }),
  refundVideo: () => ({ reason: 'it failed' }),
  closeSuspense: () => ({ action: 'write_off', reason: 'decided' }),
  explainRoute: () => ({ model: 'gpt-4o', operation: 'chat' }),

  createPrice: () => ({
    model: 'a-model',
    input: 1.5,
    output: 6,
    cached_input: 0.1,
    tiers: [{ input_over: 200_000, input: 3 }],
    variants: [{ when: { size: '1024x1024' }, image: 0.04 }],
    max_output_tokens: 4_096,
    unit_note: 'a note',
    effective_time: 0,
  }),
  changePrices: () => ({
    prices: [
      { model: 'a-model', input: 1.5, tiers: [{ input_over: 200_000, input: 3 }], unit_note: 'a note' },
    ],
    dry_run: false,
  }),
  multiplyPrices: () => ({ models: ['gpt-4o'], factor: 1.1, dry_run: false }),
}

const routes = Object.entries(contract) as [string, Route][]
const writes = routes.filter(([, route]) => route.body !== undefined)
const reads = routes.filter(([, route]) => route.method === 'GET')

const pathOf = (route: Route, id: string) => route.path.replace(/:\w+/g, id)
const bearer = (token: string) => ({ authorization: `Bearer ${token}` })

const bodyRequest = (route: Route, { bytes, contentType }: Body): RouteRequest => ({
  method: route.method,
  path: pathOf(route, '1'),
  headers: { ...bearer(ROOT_TOKEN), ...(contentType === undefined ? {} : { 'content-type': contentType }) },
  body: bytes,
})

/** The contract's own schema decides what is invalid; text that is not JSON is always invalid. */
function isBad(route: Route, { bytes, isBroken }: Body): boolean {
  let value: unknown
  try {
    value = bytes.length === 0 ? undefined : parseJson(bytes)
  } catch {
    return true
  }
  assert.ok(!isBroken, `was read as JSON though it is none: ${bytes.toString('latin1').slice(0, 200)}`)
  return route.body?.safeParse(value).success !== true
}

/**
 * This many different invalid bodies, the same ones in every run; and the unusual valid ones found on the
 * way.
 */
function bodiesFor(name: string, route: Route, good: object, count: number): { bad: Body[]; odd: Body[] } {
  const bodies = { bad: new Map<string, Body>(), odd: new Map<string, Body>() }
  for (let seed = crc32(name); bodies.bad.size < count; seed += 1) {
    for (const body of fc.sample(corrupted(good), { seed, numRuns: count })) {
      const kind = isBad(route, body) ? bodies.bad : bodies.odd
      kind.set(createHash('sha1').update(body.bytes).digest('hex'), body)
    }
  }
  return { bad: [...bodies.bad.values()].slice(0, count), odd: [...bodies.odd.values()] }
}

const describeBody = ({ bytes, contentType }: Body) =>
  `${contentType} ${bytes.toString('latin1').slice(0, 300)}`

function assertRefused({ status, text, body }: RouteResponse, bodyDescription: string): void {
  const summary = `${status} ${text.slice(0, 300)} for ${bodyDescription}`
  assert.equal(status, 400, summary)
  assert.equal(body?.success, false, summary)
  assert.equal(body.code, 'invalid_request', summary)
  assert.ok(typeof body.message === 'string' && body.message !== '', summary)
  assert.ok(Array.isArray(body.errors) && body.errors.length > 0, summary)
  for (const { path, message } of body.errors) {
    assert.ok(typeof path === 'string' && path !== '', summary)
    assert.ok(typeof message === 'string' && message !== '', summary)
  }
}

/** A failed sign-in is recorded; no other refused call writes anything. */
const withoutAudit = ({ audit: _audit, chains: _chains, ...tables }: Record<string, string>) => tables

/**
 * These routes send a request to the address in the body, so only bodies that are refused before that are
 * sent.
 */
const ASKS_A_PROVIDER = new Set(['fetchModels'])

/** These routes wait a second for the request that the body names, which may have just ended. Here none exists. */
const WAITS_FOR_A_REQUEST = new Set(['createTest', 'replay'])

const BEYOND_UTF8 = ['%', '%zz', '%00', '%ff', '%ed%a0%80', '%c0%80', '%2e%2e%2f', '%252e', '+', '%F0%9F']
const NUMBERS = [
  '0',
  '-1',
  '1.5',
  '1e3',
  '0x10',
  '9007199254740993',
  '9999999999999999',
  '-9999999999999999',
  '∞',
]
const LONG = ['9'.repeat(400), 'x'.repeat(300), '%'.repeat(250), "'".repeat(256), '_'.repeat(64)]
/** Values for queries and paths, as they are written there. */
const WRITTEN_VALUES = [
  ...[...ODD_TEXTS, ...CONTROL_TEXTS, ...NUMBERS, ...LONG].map(text =>
    encodeURIComponent(text.toWellFormed()),
  ),
  ...BEYOND_UTF8,
]

const CREDENTIALS = [
  ...ODD_TEXTS.filter(text => /^[\x20-\x7e]+$/.test(text)),
  'Bearer',
  'Bearer ',
  'Bearer Bearer',
  'Bearer null',
  'Bearer undefined',
  'Basic cm9vdDpyb290',
  'Digest username="root"',
  `Bearer ${ROOT_TOKEN.slice(0, -1)}`,
  `Bearer ${ROOT_TOKEN}x`,
  `Bearer ${ROOT_TOKEN.toUpperCase()}`,
  `Bearer ${ROOT_TOKEN}, Bearer ${ROOT_TOKEN}`,
  `Bearer sk-${ROOT_TOKEN}`,
  `Token ${ROOT_TOKEN}`,
  "Bearer ' OR '1'='1",
  "Bearer '; DROP TABLE access_tokens; --",
  'Bearer ") OR 1=1 --',
  'Bearer 1 UNION SELECT digest FROM access_tokens',
  'Bearer %',
  'Bearer _',
  'Bearer *',
  'Bearer sat-%',
  'Bearer \xff\xfe',
  'Bearer \t',
  `Bearer ${'a'.repeat(10_000)}`,
  `Bearer ${"'".repeat(5_000)}`,
  'Bearer sk-',
  'Bearer sk-%',
  "Bearer sk-' OR '1'='1",
  `Bearer sk-${'A'.repeat(48)}`,
  `Bearer sk-${'A'.repeat(10_000)}`,
]

/** Fields and ids have a few types, so a share of the pairs covers each type with each value. */
const EVERY = isCampaign ? 1 : 6
const shareOf = <Item>(name: string, items: readonly Item[]) =>
  items.filter((_, index) => (index + crc32(name)) % EVERY === 0)

/** The parameter names that the query of a route accepts. */
function fieldsOf({ query }: Route): readonly string[] {
  const { shape, in: inner } = (query ?? {}) as { shape?: object; in?: { shape?: object } }
  return Object.keys(shape ?? inner?.shape ?? {})
}

/** A marker in all data of another user. */
const STRANGER = 'nobodys-business'

/**
 * The management API of the gateway that was started last. Root is authenticated once: the test is about
 * bodies, and reading the same user from the store ten thousand times would take most of its time.
 */
let app: FastifyInstance | undefined
diagnostics.subscribe('fastify.initialization', message => {
  const { fastify } = message as { fastify: FastifyInstance }
  app = fastify
  let root: FastifyRequest['caller'] | undefined
  fastify.addHook('onRoute', options => {
    const guard = options.onRequest
    if (typeof guard !== 'function' || options.config?.route === undefined) return
    options.onRequest = async function (request, reply) {
      const isRoot = request.headers.authorization === bearer(ROOT_TOKEN).authorization
      if (isRoot && root) request.caller = root
      else await (guard as Guard).call(this, request, reply)
      if (isRoot && request.caller.actor) root = request.caller
    }
  })
})
type Guard = (this: FastifyInstance, request: FastifyRequest, reply: FastifyReply) => Promise<void>

for (const engine of oneEngine('postgres')) {
  describe(`invalid input, on ${engine}`, () => {
    const gateway = suiteGateway({ engine })
    let http: ReturnType<typeof sendOverHttp>
    let inject: Send
    let things: Awaited<ReturnType<typeof addContent>>
    let tables: TableDigests
    before(async () => {
      // The first request loads the management API.
      await gateway.api('GET', '/api/status')
      assert.ok(app)
      inject = sendInto(app)
      http = sendOverHttp(gateway.url)
      things = await addContent(gateway)
      tables = createTableDigests(gateway)
    })
    after(async () => {
      tables.close()
      await http.close()
    })

    it('is derived from a valid body for every write route, which the contract accepts', () => {
      assert.deepEqual(Object.keys(GOOD).sort(), writes.map(([name]) => name).sort())
      for (const [name, route] of writes) {
        const parsed = route.body?.safeParse(GOOD[name]?.(things))
        assert.ok(parsed?.success, `${name}: ${parsed?.error}`)
      }
    })

    for (const [name, route] of reads) {
      it(`is handled by GET ${route.path} without a 500 or data of another user`, () => askOddly(name, route))
    }

    for (const [name, route] of writes) {
      it(`is refused by ${route.method} ${route.path} with 400 and the field, and changes nothing`, async () => {
        const { bad, odd } = bodiesFor(name, route, GOOD[name]?.(things) ?? {}, COUNTS.bad)
        assert.equal(bad.length, COUNTS.bad)
        const untouched = await tables.read()
        await sendAll(
          inject,
          bad,
          body => bodyRequest(route, body),
          (response, body) => assertRefused(response, describeBody(body)),
        )
        assert.deepEqual(await tables.read(), untouched, 'a refused body was written')
        const unusual = odd.slice(0, COUNTS.odd)
        if (WAITS_FOR_A_REQUEST.has(name)) await sendInVain(route, unusual)
        else if (!ASKS_A_PROVIDER.has(name)) await sendOdd(name, route, unusual)
      })
    }

    it('is 413 for a body larger than 4 MiB, before it is parsed', async () => {
      const body = Buffer.from(`{"name":"${'x'.repeat(4 * 1024 * 1024)}"}`)
      const headers = { ...bearer(ROOT_TOKEN), 'content-type': 'application/json' }
      const response = await http.send({ method: 'POST', path: '/api/token/', headers, body })
      assert.equal(response.status, 413)
      assert.equal(response.body.code, 'too_large')
    })

    /** Input that the contract allows may still be refused, and then it changes nothing either. */
    async function sendOdd(name: string, route: Route, bodies: readonly Body[]) {
      const storedDigests = name === 'login' ? withoutAudit : (digests: Record<string, string>) => digests
      let last = await tables.read()
      for (const body of bodies) {
        const { status, text } = await inject(bodyRequest(route, body))
        assert.ok(status < 500, `${status} ${text} for ${describeBody(body)}`)
        const now = await tables.read()
        if (status >= 400)
          assert.deepEqual(
            storedDigests(now),
            storedDigests(last),
            `refused but written: ${describeBody(body)}`,
          )
        last = now
      }
    }

    /** Input that the contract allows and that is always refused, so that the bodies need not be sent one by one. */
    async function sendInVain(route: Route, bodies: readonly Body[]) {
      const untouched = await tables.read()
      await sendAll(
        inject,
        bodies,
        body => bodyRequest(route, body),
        ({ status, text }, body) =>
          assert.ok(status >= 400 && status < 500, `${status} ${text} for ${describeBody(body)}`),
      )
      assert.deepEqual(await tables.read(), untouched, 'a refused body was written')
    }

    /** Unusual values in each field of the query and in the path, and unusual credentials. */
    async function askOddly(name: string, route: Route) {
      const path = pathOf(route, '1')
      const headers = things.headersOf(route)
      const inQuery = fieldsOf(route).flatMap(field =>
        WRITTEN_VALUES.map(value => ({ path: `${path}?${field}=${value}`, headers })),
      )
      const inPath = route.path.includes(':')
        ? WRITTEN_VALUES.map(value => ({ path: pathOf(route, value), headers }))
        : []
      const shots = [
        ...shareOf(name, [...inQuery, ...inPath]),
        { path: `${path}?p=1&p=2&id=1&id=2`, headers },
      ]
      await sendAll(
        http.send,
        shots,
        request => ({ method: 'GET', ...request }),
        ({ status, text }, request) => {
          // A provider that cannot be reached is a 502 or 503, which is no error of the gateway.
          assert.ok(status !== 500, `${name}: ${status} ${text} for ${request.path}`)
          assert.ok(!text.includes(STRANGER) || seesEverybody(route), `${name}: ${text} for ${request.path}`)
        },
      )
      // Some thirty routes have each of these two, and one guard, which so gets each credential.
      const isCommon = route.access === 'user' || route.access === 'admin'
      await sendAll(
        http.send,
        isCommon ? shareOf(name, CREDENTIALS) : CREDENTIALS,
        authorization => ({ method: 'GET', path, headers: { authorization } }),
        ({ status, text }, authorization) => {
          const isFree = route.access === 'public'
          assert.equal(status === 401, !isFree, `${name}: ${status} ${text} for ${authorization}`)
        },
      )
    }
  })
}

const seesEverybody = ({ access }: Route) => access === 'admin' || access === 'root'

async function addContent(gateway: Gateway) {
  const create = async (path: string, body: unknown, token?: string) => {
    const reply = await gateway.api('POST', path, body, token === undefined ? {} : { token })
    assert.equal(reply.status, 200, reply.text)
    return reply.body.data
  }
  const stranger = await gateway.createUser({ username: STRANGER })
  await create('/api/token/', { name: STRANGER }, stranger.accessToken)
  await create('/api/user/access_token/', { name: STRANGER }, stranger.accessToken)
  await create('/api/user/manage', { id: stranger.id, action: 'add_quota', value: 1, reason: STRANGER })

  const caller = await gateway.createUser()
  const { key } = await create('/api/token/', { name: 'own' }, caller.accessToken)
  const { id: tokenId } = await create('/api/token/', { name: 'first' })
  await create('/api/token/', { name: 'second' })
  const { id: userId } = await gateway.createUser()
  const { id: channelId } = await create('/api/channel/', { mode: 'multi_to_single', channel: CHANNEL })
  const { id: aliasId } = await create('/api/alias/', { name: 'alias', target: 'gpt-4o' })
  return {
    tokenId,
    userId,
    channelId,
    aliasId,
    /** A caller with the least role that may call the route. */
    headersOf: ({ access }: Route) => {
      if (access === 'public') return {}
      if (access === 'key' || access === 'any') return bearer(key)
      return bearer(access === 'user' ? caller.accessToken : ROOT_TOKEN)
    },
  }
}
