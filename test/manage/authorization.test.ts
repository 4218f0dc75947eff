import assert from 'node:assert/strict'
import diagnostics from 'node:diagnostics_channel'
import { after, before, describe, it } from 'node:test'
import type { FastifyInstance, RouteOptions } from 'fastify'
import { ROLE } from '../../src/domain/role.ts'
import { contract } from '../../src/manage/contract/index.ts'
import type { Access, Route } from '../../src/manage/contract/route.ts'
import {
  CALLERS,
  type Caller,
  type Callers,
  createCallers,
  isMember,
  type Kind,
  MEMBERS,
  type Member,
  nodeIdOf,
  requestIdOf,
  UNKNOWN_ID,
  videoIdOf,
} from '../support/callers.ts'
import { BOTH_VARIABLE } from '../support/engines.ts'
import { type EngineName, oneEngine, suiteGateway } from '../support/gateway.ts'
import '../support/own-process.ts'
import { sendOverHttp } from '../support/route-requests.ts'
import { createTableDigests, type TableDigests } from '../support/tables.ts'

type Verdict = 401 | 403 | 404 | 'passes'

/** What the contract's `access` means for each caller who does not get a 401. */
const BY_ACCESS: Readonly<Record<Access, Partial<Record<Caller, Verdict>>>> = {
  public: Object.fromEntries(CALLERS.map(caller => [caller, 'passes'])),
  user: { User: 'passes', Admin: 'passes', Root: 'passes' },
  admin: { User: 403, Admin: 'passes', Root: 'passes' },
  root: { User: 403, Admin: 403, Root: 'passes' },
  key: { 'an sk- token': 'passes' },
  any: { 'an sk- token': 'passes', User: 'passes', Admin: 'passes', Root: 'passes' },
}

const guardOf = (route: Route, caller: Caller): Verdict => BY_ACCESS[route.access][caller] ?? 401

/** The owner or kind of an object, relative to the caller. */
type Owners = Readonly<Record<string, Readonly<Record<Member, Verdict>>>>
const all = (verdict: Verdict) => ({ User: verdict, Admin: verdict, Root: verdict })

/** Objects of other users are a 404, even for Root. */
const PRIVATE: Owners = { own: all('passes'), "somebody else's": all(404), unknown: all(404) }
/** Ids in a list that are not the caller's are skipped. */
const PRIVATE_LIST: Owners = { own: all('passes'), "somebody else's": all('passes'), unknown: all('passes') }
/** Belongs to the instance: a caller with access to the route may read each. */
const SHARED: Owners = { known: all('passes'), unknown: all(404) }
const SHARED_LIST: Owners = { known: all('passes'), unknown: all('passes') }
/** docs/reference/management-api.md: Permission levels. */
const RANKED: Owners = {
  'a User': { User: 403, Admin: 'passes', Root: 'passes' },
  'an Admin': { User: 403, Admin: 403, Root: 'passes' },
  'a Root': { User: 403, Admin: 403, Root: 403 },
  themselves: { User: 403, Admin: 403, Root: 403 },
  unknown: { User: 403, Admin: 404, Root: 404 },
}
const READ_USER: Owners = {
  'a User': { User: 403, Admin: 'passes', Root: 'passes' },
  'an Admin': { User: 403, Admin: 'passes', Root: 'passes' },
  'a Root': { User: 403, Admin: 'passes', Root: 'passes' },
  themselves: { User: 403, Admin: 'passes', Root: 'passes' },
  unknown: { User: 403, Admin: 404, Root: 404 },
}

/** A request is visible to the user who made it, and to administrators. */
const LOGGED: Owners = {
  own: all('passes'),
  "somebody else's": { User: 404, Admin: 'passes', Root: 'passes' },
  unknown: all(404),
}

/** Bodies are confidential: administrators may not read those of others, and Root's reading is audited. */
const CONFIDENTIAL: Owners = {
  own: all('passes'),
  'of another user': { User: 404, Admin: 403, Root: 'passes' },
  unknown: all(404),
}

/** A saved test has the body of a request, so administrators may not use those of others. */
const TESTS: Owners = {
  own: all('passes'),
  'of another user': { User: 404, Admin: 404, Root: 'passes' },
  unknown: all(404),
}

type Ask = {
  readonly params?: Readonly<Record<string, string>>
  readonly query?: string
  readonly body?: unknown
}
/** The object that a request names: its kind, who has access, and how the request names it. */
type Naming = { readonly kind: Kind; readonly owners: Owners; ask(id: number): Ask }
type Rule =
  /** The request names no object. */
  | 'plain'
  /** It deletes the account of the caller. */
  | 'ends the caller'
  | Naming

const inPath = (kind: Kind, owners: Owners, { params, ...rest }: Ask = {}): Naming => ({
  kind,
  owners,
  ask: id => ({ params: { id: String(id), ...params }, ...rest }),
})
const inBody = (kind: Kind, owners: Owners, body: object = {}): Naming => ({
  kind,
  owners,
  ask: id => ({ body: { id, ...body } }),
})
const inList = (kind: Kind, owners: Owners, body: object = {}): Naming => ({
  kind,
  owners,
  ask: id => ({ body: { ids: [id], ...body } }),
})

/** A rule for every route: a route that is missing here fails the first test below. */
const RULES: Readonly<Record<string, Rule>> = {
  status: 'plain',
  setup: 'plain',
  notice: 'plain',
  listGroups: 'plain',
  listOwnGroups: 'plain',
  listAllGroups: 'plain',

  login: 'plain',
  register: 'plain',
  logout: 'plain',
  logoutByLink: 'plain',

  getSelf: 'plain',
  updateSelf: 'plain',
  deleteSelf: 'ends the caller',
  listAccessTokens: 'plain',
  createAccessToken: 'plain',
  deleteAccessToken: inPath('access token', PRIVATE),
  rotateAccessToken: 'plain',
  listSessions: 'plain',
  endSession: inPath('session', PRIVATE),
  endOtherSessions: 'plain',

  listUsers: 'plain',
  searchUsers: 'plain',
  getUser: inPath('user', READ_USER),
  createUser: 'plain',
  updateUser: inBody('user', RANKED, { display_name: 'renamed' }),
  deleteUser: inPath('user', RANKED),
  manageUser: inBody('user', RANKED, { action: 'disable' }),

  listTokens: 'plain',
  searchTokens: 'plain',
  createToken: 'plain',
  getToken: inPath('token', PRIVATE),
  updateToken: inBody('token', PRIVATE, { name: 'renamed' }),
  deleteToken: inPath('token', PRIVATE),
  revealToken: inPath('token', PRIVATE),
  deleteTokens: inList('token', PRIVATE_LIST),
  revealTokens: inList('token', PRIVATE_LIST),

  listChannels: 'plain',
  searchChannels: 'plain',
  createChannel: 'plain',
  getChannel: inPath('channel', SHARED),
  updateChannel: inBody('channel', SHARED, { name: 'renamed' }),
  deleteChannel: inPath('channel', SHARED),
  copyChannel: inPath('channel', SHARED),
  setChannelStatus: inPath('channel', SHARED, { body: { status: 2 } }),
  setChannelStatuses: inList('channel', SHARED_LIST, { status: 2 }),
  editChannels: inList('channel', SHARED_LIST, { fields: { remark: 'edited' } }),
  deleteChannels: inList('channel', SHARED_LIST),
  deleteDisabledChannels: 'plain',
  revealChannelKey: inPath('channel', SHARED),
  setChannelKeyStatus: inPath('channel', SHARED, { params: { index: '0' }, body: { status: 2 } }),
  deleteChannelKey: inPath('channel', SHARED, { params: { index: '0' } }),
  manageChannelKeys: {
    kind: 'channel',
    owners: SHARED,
    ask: id => ({ body: { channel_id: id, action: 'get_key_status' } }),
  },
  enableTag: 'plain',
  disableTag: 'plain',
  updateTag: 'plain',
  tagChannels: inList('channel', SHARED_LIST, { tag: 'a tag' }),
  listTagModels: 'plain',
  listTypes: 'plain',
  listKnownModels: 'plain',
  listEnabledModels: 'plain',
  fetchModelsOf: inPath('channel', SHARED),
  fetchModelsById: { kind: 'channel', owners: SHARED, ask: id => ({ query: `?id=${id}` }) },
  fetchModels: 'plain',
  testChannels: 'plain',
  testChannel: inPath('channel', SHARED),

  listAliases: 'plain',
  createAlias: 'plain',
  getAlias: inPath('alias', SHARED),
  updateAlias: inBody('alias', SHARED, { target: 'gpt-4o-mini' }),
  deleteAlias: inPath('alias', SHARED),

  listCanaries: 'plain',
  startCanary: {
    kind: 'channel',
    owners: SHARED,
    ask: id => ({ body: { kind: 'channel', channel_id: id, changes: { weight: 3 } } }),
  },
  getCanary: inPath('canary', SHARED),
  updateCanary: inBody('canary', SHARED, { note: 'changed' }),
  pauseCanary: inPath('canary', SHARED),
  resumeCanary: inPath('canary', SHARED),
  promoteCanary: inPath('canary', SHARED),
  dropCanary: inPath('canary', SHARED),
  reportShadowPrice: inPath('canary', SHARED),

  listFiringAlerts: 'plain',
  listAlertRules: 'plain',
  createAlertRule: 'plain',
  getAlertRule: inPath('alert rule', SHARED),
  updateAlertRule: inBody('alert rule', SHARED, { repeat_seconds: 60 }),
  deleteAlertRule: inPath('alert rule', SHARED),
  listAlertTargets: 'plain',
  createAlertTarget: 'plain',
  getAlertTarget: inPath('alert target', SHARED),
  updateAlertTarget: inBody('alert target', SHARED, { group_seconds: 60 }),
  deleteAlertTarget: inPath('alert target', SHARED),
  testAlertTarget: inPath('alert target', SHARED),
  listAlertDeliveries: 'plain',
  retryAlertDelivery: inPath('delivery', SHARED),

  listConfigRevisions: 'plain',
  getConfigRevision: { kind: 'revision', owners: SHARED, ask: id => ({ params: { revision: String(id) } }) },
  diffConfigRevisions: {
    kind: 'revision',
    owners: SHARED,
    ask: id => ({ params: { revision: String(id) } }),
  },
  rollbackConfig: {
    kind: 'revision',
    owners: SHARED,
    ask: id => ({ params: { revision: String(id) }, body: { dry_run: true } }),
  },

  listSettings: 'plain',
  updateSettings: 'plain',
  listOptions: 'plain',
  updateOption: 'plain',

  listAudit: 'plain',

  verifyLedger: 'plain',
  listEntries: 'plain',
  ledgerHealth: 'plain',
  listNodes: 'plain',
  drainNode: { kind: 'node', owners: SHARED, ask: number => ({ params: { id: nodeIdOf(number) } }) },
  retireNode: { kind: 'node', owners: SHARED, ask: number => ({ params: { id: nodeIdOf(number) } }) },
  listSuspense: 'plain',
  closeSuspense: inPath('doubt', SHARED, { body: { action: 'write_off', reason: 'decided' } }),
  explainRoute: 'plain',

  usageSeries: {
    kind: 'channel',
    owners: SHARED_LIST,
    ask: id => ({ query: `?from=0&to=900&channel_id=${id}` }),
  },
  usageTop: {
    kind: 'channel',
    owners: SHARED_LIST,
    ask: id => ({ query: `?from=0&to=900&by=model&channel_id=${id}` }),
  },
  usageTimes: {
    kind: 'channel',
    owners: SHARED_LIST,
    ask: id => ({ query: `?from=0&to=900&channel_id=${id}` }),
  },
  usageTags: 'plain',
  channelHealth: 'plain',
  modelOverview: 'plain',
  attention: 'plain',
  dismissAttention: 'plain',

  getLog: {
    kind: 'request',
    owners: LOGGED,
    ask: number => ({ params: { request_id: requestIdOf(number) } }),
  },
  explainRequest: {
    kind: 'request',
    owners: LOGGED,
    ask: number => ({ query: `?q=${requestIdOf(number)}` }),
  },
  getBody: {
    kind: 'body',
    owners: CONFIDENTIAL,
    ask: number => ({ params: { request_id: requestIdOf(number) } }),
  },
  replay: {
    kind: 'body',
    owners: CONFIDENTIAL,
    ask: number => ({ body: { request_id: requestIdOf(number) } }),
  },
  listTests: 'plain',
  createTest: 'plain',
  updateTest: inBody('test', TESTS, { name: 'renamed' }),
  deleteTest: inPath('test', TESTS),
  runTests: { kind: 'test', owners: TESTS, ask: id => ({ body: { test_ids: [id] } }) },
  listLogs: 'plain',
  listOwnLogs: 'plain',
  walkLogs: 'plain',
  logTotals: 'plain',
  logFacets: 'plain',
  logTimes: 'plain',
  exportLogs: 'plain',
  metrics: 'plain',
  sumLogs: 'plain',
  sumOwnLogs: 'plain',
  listTokenLogs: 'plain',
  tokenUsage: 'plain',
  billingSubscription: 'plain',
  billingUsage: 'plain',
  billingSubscriptionShort: 'plain',
  billingUsageShort: 'plain',

  listVideos: 'plain',
  listTasks: 'plain',
  listOwnTasks: 'plain',
  getVideo: { kind: 'video', owners: LOGGED, ask: number => ({ params: { id: videoIdOf(number) } }) },
  videoContent: { kind: 'video', owners: LOGGED, ask: number => ({ params: { id: videoIdOf(number) } }) },
  deleteVideo: { kind: 'video', owners: PRIVATE, ask: number => ({ params: { id: videoIdOf(number) } }) },
  playground: 'plain',
  refundVideo: {
    kind: 'video',
    owners: SHARED,
    ask: number => ({ params: { id: videoIdOf(number) }, body: { reason: 'it failed' } }),
  },

  listPrices: 'plain',
  createPrice: 'plain',
  changePrices: 'plain',
  multiplyPrices: 'plain',
  listPriceHistory: 'plain',
  deletePrice: inPath('price', SHARED),
  pricing: 'plain',
  listUsableModels: 'plain',
}

/**
 * The access of each path family, stated a second time to catch a mistake
 * (docs/reference/management-api.md: Routes).
 */
const FAMILIES: readonly (readonly [RegExp, Access])[] = [
  [/^\/api\/(status|setup|notice|user\/(login|register|logout))$/, 'public'],
  [
    /^\/api\/(setting\/|option\/|channel\/:id\/key$|ledger\/suspense\/:id$|config\/revision\/:revision\/rollback$|node\/:id\/)/,
    'root',
  ],
  [/^\/api\/(channel|alias|canary|price|audit|group|ledger|route|alert|node|config)\//, 'admin'],
  [/^\/api\/user\/(search|manage|:id)?$/, 'admin'],
  [/^\/metrics$/, 'admin'],
  [/^\/api\/task\/$/, 'admin'],
  [/^\/api\/task\/self$/, 'user'],
  [/^\/api\/log\/(stat)?$/, 'admin'],
  [/^\/api\/video\/:id\/refund$/, 'admin'],
  [
    /^\/api\/(token\/|video\/|playground\/|log\/(self|request|explain|walk|totals|times|facets|export)(\/|$)|model\/|replay(\/|$)|attention(\/dismiss)?$|usage\/(series|top|times|tags)$)/,
    'user',
  ],
  [/^\/api\/user\/(self|access_token|token|sessions|groups|models)(\/|$)/, 'user'],
  [/^\/api\/(usage\/token\/|log\/token)$/, 'key'],
  [/^(\/v1)?\/dashboard\/billing\//, 'key'],
  [/^\/api\/pricing$/, 'any'],
]

/** What the program serves besides the contract: the console and the reference. */
const BESIDE_THE_CONTRACT = [
  // Nothing is served there, which a test asserts.
  /^\w+ \/api\/user\/(aff|aff_transfer|amount|checkin|pay|setting|topup)$/,
  /^GET \/(assets\/\*|theme\.js|icon\.svg)?$/,
  /^HEAD \/$/,
  /^GET \/api\/openapi\.json$/,
  /^(GET|HEAD) \/docs(\/.*)?$/,
]

const routes = Object.entries(contract) as [string, Route][]
const pathOf = (route: Route, params: Readonly<Record<string, string>>) =>
  route.path
    .replace(/:(\w+)/g, (_whole, name: string) => params[name] ?? 'not-a-number')
    .replace('*', 'chat/completions')

/** A request that no handler executes: its response shows only the checks before the handler. */
const harmless = (route: Route): Ask => (route.body ? { body: [] } : {})

const classOf = (status: number): Verdict =>
  status === 401 || status === 403 || status === 404 ? status : 'passes'

const registered: { readonly name: string; readonly options: RouteOptions }[] = []
diagnostics.subscribe('fastify.initialization', message => {
  const { fastify } = message as { fastify: FastifyInstance }
  fastify.addHook('onRoute', options => {
    for (const method of [options.method].flat())
      registered.push({ name: `${method} ${options.url}`, options })
  })
})

type Cell = {
  readonly name: string
  readonly caller: Caller
  readonly owner: string | undefined
  readonly expected: Verdict
}

/** All callers without an account share one key per owner. */
const keyOf = ({ caller, owner }: Cell) => `${isMember(caller) ? caller : 'a stranger'} ${owner}`

/** Every caller, and for a request that names an object every relation to it. */
function cellsOf(route: Route, rule: Rule): Cell[] {
  const plain = CALLERS.map(caller => ({
    name: caller,
    caller,
    owner: undefined,
    expected: guardOf(route, caller),
  }))
  if (typeof rule !== 'object') return plain
  const ownerCells = Object.entries(rule.owners).flatMap(([owner, verdicts]) =>
    CALLERS.map(caller => {
      const guard = guardOf(route, caller)
      const expected = guard === 'passes' && isMember(caller) ? verdicts[caller] : guard
      return { name: `${caller}, ${owner}`, caller, owner, expected }
    }),
  )
  return [...plain, ...ownerCells]
}

/** Whether a body or query names one of the gateway's objects by its id, or several by theirs. */
function takesId(schema: Route['body']): boolean {
  const shape = (schema as { shape?: object } | undefined)?.shape ?? {}
  return ['id', 'ids', 'channel_id', 'q'].some(name => name in shape)
}

/**
 * Whether this route is tested with callers whom it refuses without an account. They are judged before the handler, by their
 * credential and the access of the route alone. Credentials are in the store, but one route of each access suffices for the second engine.
 */
function refusesStrangers(engine: EngineName, name: string, { access }: Route): boolean {
  if (engine === 'sqlite' || process.env[BOTH_VARIABLE] !== undefined) return true
  return routes.find(([, route]) => route.access === access)?.[0] === name
}

for (const engine of oneEngine('sqlite')) {
  describe(`authorization on ${engine}`, () => {
    // Routes are registered while the gateway starts.
    before(() => {
      registered.length = 0
    })
    const gateway = suiteGateway({ engine })
    let callers: Callers
    let tables: TableDigests
    let http: ReturnType<typeof sendOverHttp>
    before(async () => {
      callers = await createCallers(gateway)
      tables = createTableDigests(gateway)
      http = sendOverHttp(gateway.url)
    })
    after(async () => {
      tables.close()
      await http.close()
    })

    it('is specified for every route of the contract, and for no other', () => {
      assert.deepEqual(Object.keys(RULES).sort(), Object.keys(contract).sort())
    })

    it('is specified for every path parameter and id of a route', () => {
      for (const [name, route] of routes) {
        const rule = RULES[name]
        const isNaming = typeof rule === 'object'
        assert.equal(
          isNaming,
          route.path.includes(':') || takesId(route.body) || takesId(route.query),
          `${name}: a rule about owners is needed where a request names an object`,
        )
      }
    })

    it('applies to everything that the program serves, except its console and its reference', () => {
      const promised = new Map(routes.map(([, route]) => [`${route.method} ${route.path}`, route]))
      const paths = new Set(routes.map(([, route]) => route.path))
      const strange = registered.filter(({ name, options }) => {
        if (promised.has(name)) return options.config?.route !== promised.get(name) || !options.onRequest
        const isOtherMethod = paths.has(options.url) || options.url === '/api/openapi.json'
        return !isOtherMethod && !BESIDE_THE_CONTRACT.some(pattern => pattern.test(name))
      })
      assert.deepEqual(
        strange.map(({ name }) => name),
        [],
      )
      const served = new Set(registered.map(({ name }) => name))
      assert.deepEqual(
        [...promised.keys()].filter(name => !served.has(name)),
        [],
      )
    })

    it('matches the contract for each path family', () => {
      const expected = routes.map(([name, { path }]) => {
        const family = FAMILIES.find(([pattern]) => pattern.test(path))
        return [name, family?.[1]]
      })
      assert.deepEqual(
        Object.fromEntries(expected),
        Object.fromEntries(routes.map(([name, { access }]) => [name, access])),
      )
    })

    for (const [name, route] of routes) {
      it(`${route.method} ${route.path} (${route.access})`, () => judge(name, route))
    }

    it('serves no path under /api that is not in the contract', async () => {
      for (const caller of CALLERS) {
        for (const path of [
          '/api',
          '/api/',
          '/api/nothing',
          '/api/token/1/2/3',
          '/api/user/self/role',
          '/api/user/checkin',
          '/api/user/aff',
        ]) {
          const reply = await gateway.api('GET', path, undefined, {
            token: null,
            headers: callers.headersOf[caller],
          })
          assert.deepEqual([reply.status, reply.body.code], [404, 'not_found'], `${caller} ${path}`)
        }
      }
    })

    it('responds 405 to another method on a path of the contract, and changes nothing', async () => {
      const untouched = await tables.read()
      for (const { path } of new Map(routes.map(([, route]) => [route.path, route])).values()) {
        const reply = await gateway.api('PATCH', path.replace(/:\w+/g, '1'), {})
        assert.equal(reply.status, 405, path)
        const methods = routes.flatMap(([, route]) => (route.path === path ? [route.method] : []))
        assert.equal(reply.headers.get('allow'), methods.sort().join(', '))
      }
      assert.deepEqual(await tables.read(), untouched)
    })

    it('lists only the caller’s own objects, also for Root', async () => {
      for (const member of MEMBERS) {
        const { id, token } = callers.members[member]
        const owned = await callers.addContent(member)
        await callers.addContent('nobody')
        const list = async (path: string) =>
          (await gateway.api('GET', `${path}?page_size=500`, undefined, { token })).body.data
        const idsIn = (items: { id: number }[]) => items.map(item => item.id)
        const tokens = (await list('/api/token/')).items
        assert.deepEqual([...new Set(tokens.map((each: { user_id: number }) => each.user_id))], [id])
        assert.ok(idsIn(tokens).includes(owned.token))
        const theirs = await callers.idsOf(id)
        assert.deepEqual(idsIn((await list('/api/user/access_token/')).items).sort(), theirs.accessTokens)
        assert.deepEqual(idsIn(await list('/api/user/sessions')).sort(), theirs.sessions)
      }
    })

    it('grants no rights from a body: a User cannot raise their own role or quota', async () => {
      const { token } = callers.members.User
      const self = async () => (await gateway.api('GET', '/api/user/self', undefined, { token })).body.data
      const before = await self()
      const greedy = {
        id: callers.members.Root.id,
        user_id: callers.members.Root.id,
        role: 100,
        status: 1,
        quota: 1_000_000,
        unlimited_quota: true,
        group: 'vip',
        limits: { rpm: null },
        created_time: 1,
      }
      const changed = await gateway.api('PUT', '/api/user/self', { ...greedy, display_name: 'me' }, { token })
      assert.equal(changed.status, 200)
      assert.deepEqual(await self(), { ...before, display_name: 'me' })
      const tokenReply = await gateway.api(
        'POST',
        '/api/token/',
        { ...greedy, name: 'mine', used_quota: -5 },
        { token },
      )
      assert.equal(tokenReply.body.data.user_id, before.id)
      assert.equal(tokenReply.body.data.used_quota, 0)
    })

    it('assigns only roles below the caller’s own, on every route', async () => {
      const rolesNow = async () => {
        const rows = await gateway.db.selectFrom('users').select(['id', 'role']).orderBy('id').execute()
        return rows.map(row => `${row.id}:${row.role}`)
      }
      const target = await callers.make('user', 'a User', 'Root')
      const roles = await rolesNow()
      const password = 'a long password'
      const tries = [
        ['Admin', 'POST', '/api/user/', { username: 'climber', password, role: 10 }],
        ['Admin', 'POST', '/api/user/', { username: 'climber', password, role: 100 }],
        ['Root', 'POST', '/api/user/', { username: 'climber', password, role: 100 }],
        ['Admin', 'PUT', '/api/user/', { id: target, role: 10 }],
        ['Admin', 'PUT', '/api/user/', { id: target, role: 100 }],
        ['Root', 'PUT', '/api/user/', { id: target, role: 100 }],
        ['Admin', 'POST', '/api/user/manage', { id: target, action: 'promote' }],
        ['User', 'POST', '/api/user/manage', { id: callers.members.User.id, action: 'promote' }],
        ['Admin', 'PUT', '/api/user/', { id: callers.members.Admin.id, role: 100 }],
      ] as const
      for (const [member, method, path, body] of tries) {
        const reply = await gateway.api(method, path, body, { token: callers.members[member].token })
        assert.deepEqual(
          [reply.status, reply.body.code],
          [403, 'forbidden'],
          `${member} ${JSON.stringify(body)}`,
        )
      }
      assert.deepEqual(await rolesNow(), roles)
    })

    async function judge(name: string, route: Route) {
      const rule = RULES[name]
      assert.ok(rule, `${name} has no rule`)
      const areStrangersRefused = refusesStrangers(engine, name, route)
      const cells = cellsOf(route, rule).filter(
        ({ caller, expected }) => isMember(caller) || expected === 'passes' || areStrangersRefused,
      )
      const refused = cells.filter(({ expected }) => expected !== 'passes')
      const admitted = cells.filter(({ expected }) => expected === 'passes')
      const actual: Record<string, Verdict> = {}

      const shared = new Map<string, number>()
      for (const cell of refused)
        if (cell.owner && !shared.has(keyOf(cell))) shared.set(keyOf(cell), await objectOf(rule, cell))
      const untouched = await tables.read()
      // All at once: they change nothing, and some routes wait a second for a request that may have just ended.
      await Promise.all(
        refused.map(async cell => {
          actual[cell.name] = await ask(route, rule, cell, shared.get(keyOf(cell)) ?? UNKNOWN_ID)
        }),
      )
      assert.deepEqual(await tables.read(), untouched, 'a refused call changed something')

      for (const cell of admitted) actual[cell.name] = await enter(route, rule, cell)
      assert.deepEqual(actual, Object.fromEntries(cells.map(cell => [cell.name, cell.expected])))
    }

    /** A permitted call, on an object created for it, because the call may delete it. */
    async function enter(route: Route, rule: Rule, cell: Cell): Promise<Verdict> {
      const id = cell.owner ? await objectOf(rule, cell) : UNKNOWN_ID
      const isPassedOver = cell.owner === "somebody else's" || cell.owner === 'unknown'
      if (!isPassedOver) return ask(route, rule, cell, id)
      // An id in a list that is not the caller's is skipped: the call succeeds and changes nothing.
      const untouched = await tables.read()
      const verdict = await ask(route, rule, cell, id)
      assert.deepEqual(await tables.read(), untouched, `${cell.name}: something was changed`)
      return verdict
    }

    async function ask(route: Route, rule: Rule, cell: Cell, id: number): Promise<Verdict> {
      const naming = typeof rule === 'object' ? rule : undefined
      const { params = {}, query = '', body } = naming && cell.owner ? naming.ask(id) : harmless(route)
      const headers =
        rule === 'ends the caller' && cell.expected === 'passes'
          ? await callers.passing(cell.caller as Member)
          : callers.headersOf[cell.caller]
      const reply = await http.send({
        method: route.method,
        path: `${pathOf(route, params)}${query}`,
        headers: { ...headers, ...(body !== undefined && { 'content-type': 'application/json' }) },
        ...(body !== undefined && { body: Buffer.from(JSON.stringify(body)) }),
      })
      assert.notEqual(reply.status, 500, `${cell.name}: ${reply.text}`)
      if (reply.status === 401 && !route.relayErrors)
        assert.equal(reply.body.code, 'unauthorized', reply.text)
      // Existing clients recognize the gateway by this word (docs/reference/errors.md: Management errors).
      if (reply.status === 401 && route.access in ROLE)
        assert.match(reply.body.message, /Authorization.*New-Api-User/)
      return classOf(reply.status)
    }

    const objectOf = (rule: Rule, { caller, owner }: Cell): Promise<number> => {
      assert.ok(typeof rule === 'object' && owner)
      return callers.make(rule.kind, owner, caller)
    }
  })
}
