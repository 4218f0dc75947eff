import assert from 'node:assert/strict'
import { request } from 'node:http'
import { before, describe, it } from 'node:test'
import type { z } from 'zod'
import { contract } from '../../src/manage/contract/index.ts'
import type { Route } from '../../src/manage/contract/route.ts'
import { type Gateway, oneEngine, type Reply, ROOT_TOKEN, suiteGateway } from '../support/gateway.ts'

const ROUTES: readonly Route[] = Object.values(contract)
/** The contract's own paths, with a value for each parameter. */
const concrete = (path: string) => path.replaceAll(/:[a-z_]+/gi, '1')
const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const

const SECURITY_HEADERS: Readonly<Record<string, RegExp>> = {
  'content-security-policy': /default-src 'none'.*frame-ancestors 'none'/,
  'x-content-type-options': /^nosniff$/,
  'x-frame-options': /^DENY$/,
  'referrer-policy': /^no-referrer$/,
}

function assertRefused({ status, body }: Reply, expected: number, code: string): void {
  assert.deepEqual([status, body?.success, body?.code], [expected, false, code], JSON.stringify(body))
  assert.ok(body.message.length > 0)
}

function assertFault(reply: Reply, path: string): void {
  assertRefused(reply, 400, 'invalid_request')
  assert.ok(
    reply.body.errors.some((error: { path: string }) => error.path === path),
    `${JSON.stringify(reply.body)} does not name ${path}`,
  )
}

for (const engine of oneEngine('sqlite')) {
  describe(`every response of the management API on ${engine} (docs/reference/management-api.md: Envelope)`, () => {
    const gateway = suiteGateway({ engine })
    let url: string
    let user: Awaited<ReturnType<Gateway['createUser']>>

    before(async () => {
      url = gateway.url
      user = await gateway.createUser({ username: 'somebody' })
    })

    const get = (path: string) => gateway.api('GET', path)
    const post = (raw: string | Uint8Array, headers: Record<string, string> = {}) =>
      gateway.api('POST', '/api/token/', undefined, { raw, headers })

    describe('the envelope', () => {
      it('of a success is 200 {"success":true,"message":"","data":…}', async () => {
        const { status, body, headers } = await get('/api/user/self')
        assert.equal(status, 200)
        assert.match(headers.get('content-type') ?? '', /^application\/json/)
        assert.deepEqual(Object.keys(body), ['success', 'message', 'data'])
        assert.deepEqual([body.success, body.message], [true, ''])
      })

      it('of invalid input names every error by its path', async () => {
        const { status, body } = await gateway.api('POST', '/api/token/', {
          remain_quota: -1,
          limits: { rpm: 0 },
        })
        assert.equal(status, 400)
        assert.deepEqual(Object.keys(body).sort(), ['code', 'errors', 'message', 'success'])
        assert.deepEqual(body.errors.map((error: { path: string }) => error.path).sort(), [
          'limits.rpm',
          'name',
          'remain_quota',
        ])
        for (const { message } of body.errors) assert.ok(message.length > 0)
      })

      it('of invalid input says for each field what it must be', async () => {
        const messagesOf = async (reply: Promise<Reply>) =>
          (await reply).body.errors.map(({ path, message }: Record<string, string>) => `${path}: ${message}`)
        const create = (body: unknown) => messagesOf(gateway.api('POST', '/api/token/', body))
        assert.deepEqual(await create({}), ['name: is required'])
        assert.deepEqual(await create([]), ['body: must be a JSON object'])
        assert.deepEqual(await messagesOf(gateway.api('POST', '/api/token/')), [
          'body: must be a JSON object',
        ])
        assert.deepEqual(
          await create({ name: 5, remain_quota: -1, expired_time: 1.5, unlimited_quota: 'yes', limits: [] }),
          [
            'name: must be a string',
            'remain_quota: must be at least 0',
            'expired_time: must be a whole number',
            'unlimited_quota: must be true or false',
            'limits: must be an object',
          ],
        )
        assert.deepEqual(await create({ name: 'x', limits: { rpm: 1e10 } }), [
          'limits.rpm: must be at most 1000000000',
        ])
        assert.deepEqual(await messagesOf(gateway.api('POST', '/api/token/batch', { ids: [] })), [
          'ids: must not be empty',
        ])
        assert.deepEqual(await messagesOf(gateway.api('POST', '/api/user/manage', { id: 1, action: 'x' })), [
          'action: must be one of enable, disable, promote, demote, add_quota, delete',
        ])
        assert.deepEqual(await messagesOf(gateway.api('PUT', '/api/option/', { key: 'attempts' })), [
          'value: is required',
        ])
        assert.deepEqual(await messagesOf(get('/api/token/?p=1&p=2')), ['p: must occur only once'])
      })

      it('of a refusal has the status of its case', async () => {
        assertRefused(
          await gateway.api('GET', '/api/user/self', undefined, { token: null }),
          401,
          'unauthorized',
        )
        assertRefused(
          await gateway.api('GET', '/api/user/', undefined, { token: user.accessToken }),
          403,
          'forbidden',
        )
        assertRefused(await get('/api/token/123456789'), 404, 'not_found')
        assertRefused(
          await gateway.api('POST', '/api/user/', { username: 'Somebody', password: 'long enough' }),
          409,
          'conflict',
        )
      })

      it('of an internal error reveals no internals, only where to look', async () => {
        const head = await gateway.db
          .selectFrom('chains')
          .selectAll()
          .where('name', '=', 'audit')
          .executeTakeFirstOrThrow()
        const setSeq = (seq: number) =>
          gateway.db.updateTable('chains').set({ seq }).where('name', '=', 'audit').execute()
        await setSeq(0)
        const reply = await gateway.api('POST', '/api/token/', { name: 'x' })
        await setSeq(head.seq)
        assertRefused(reply, 500, 'internal_error')
        assert.ok(reply.body.message.includes(reply.headers.get('x-request-id')))
        assert.doesNotMatch(reply.text, /constraint|unique|audit|sqlite|duplicate|\.ts/i)
      })
    })

    describe('headers', () => {
      it('contain a request id on every response, in order of time', async () => {
        const replies = [
          await get('/api/status'),
          await get('/api/user/self'),
          await get('/api/token/x'),
          await gateway.api('GET', '/api/user/self', undefined, { token: null }),
          await gateway.api('GET', '/api/user/', undefined, { token: user.accessToken }),
          await get('/api/nothing'),
          await get('/api/token/%zz'),
          await get(`/api/token/${'1'.repeat(300)}`),
          await gateway.api('DELETE', '/api/status'),
          await post('{'),
          await get('/v1/nothing'),
          await get('/docs'),
          await get('/nothing'),
          await gateway.api('GET', '/api/status', undefined, { headers: { 'x-request-id': 'chosen' } }),
        ]
        const ids = replies.map(({ headers }) => headers.get('x-request-id') ?? '')
        for (const id of ids) assert.match(id, /^req_[0-9A-HJKMNP-TV-Z]{26}$/)
        assert.equal(new Set(ids).size, ids.length)
        const times = ids.map(id => id.slice(0, 14))
        assert.deepEqual(times, times.toSorted())
      })

      it('prevent sniffing, framing and leaking in browsers, on pages and errors too', async () => {
        for (const path of [
          '/',
          '/docs',
          '/api/status',
          '/api/nothing',
          '/api/token/%zz',
          '/api/openapi.json',
        ]) {
          const { headers } = await get(path)
          for (const [name, value] of Object.entries(SECURITY_HEADERS))
            assert.match(headers.get(name) ?? '', value, `${name} of ${path}`)
        }
      })

      it('explain with every 401 how to send a credential', async () => {
        for (const path of ['/api/user/self', '/api/pricing', '/v1/models']) {
          const { status, headers } = await gateway.api('GET', path, undefined, { token: null })
          assert.deepEqual([status, headers.get('www-authenticate')], [401, 'Bearer'], path)
        }
      })

      it('disable caching of /api responses', async () => {
        for (const path of ['/api/status', '/api/user/self', '/api/nothing'])
          assert.equal((await get(path)).headers.get('cache-control'), 'no-store')
      })

      it('let no other origin read /api', async () => {
        for (const origin of ['https://evil.example', 'null']) {
          const { headers } = await gateway.api('GET', '/api/status', undefined, { headers: { origin } })
          assert.equal(headers.get('access-control-allow-origin'), null)
        }
      })
    })

    describe('paths', () => {
      it('are the same with and without a trailing slash, and never a redirect', async () => {
        for (const { method, path } of ROUTES) {
          const plain = concrete(path).replace(/\/$/, '')
          const [without, withSlash] = [
            await gateway.api(method, plain, undefined, { token: null }),
            await gateway.api(method, `${plain}/`, undefined, { token: null }),
          ]
          assert.equal(without.status, withSlash.status, `${method} ${plain}`)
          assert.ok(without.status < 300 || without.status >= 400, `${method} ${plain} ${without.status}`)
          assert.notEqual(without.status, 404, `${method} ${plain}`)
        }
      })

      it('that are unknown under /api are 404 in JSON, even to a browser', async () => {
        for (const path of [
          '/api',
          '/api/',
          '/api/nothing',
          '/api/token/1/2/3',
          '/api/pricing_new',
          '/api/..%2f..%2fetc%2fpasswd',
          '/api/token%00',
        ]) {
          const reply = await gateway.api('GET', path, undefined, { headers: { accept: 'text/html' } })
          assertRefused(reply, 404, 'not_found')
        }
      })

      it('that are unknown elsewhere are 404: the console’s page to a browser, JSON to programs', async () => {
        for (const path of ['/nothing', '/channel/7', '/api/../etc/passwd']) {
          const page = await gateway.api('GET', path, undefined, { headers: { accept: 'text/html,*/*' } })
          assert.equal(page.status, 404, path)
          assert.match(page.headers.get('content-type') ?? '', /^text\/html/)
          assert.match(page.headers.get('content-security-policy') ?? '', /script-src 'self'/)
          assertRefused(await gateway.api('GET', path), 404, 'not_found')
          const post = await gateway.api('POST', path, {}, { headers: { accept: 'text/html' } })
          assertRefused(post, 404, 'not_found')
        }
      })

      it('that are unknown under /v1 are 404 in the relay’s error format', async () => {
        for (const path of ['/v1', '/v1/', '/v1/nothing', '/v1/chat/nothing?x=1']) {
          const { status, body } = await gateway.api('GET', path, undefined, {
            headers: { accept: 'text/html' },
          })
          assert.equal(status, 404)
          assert.deepEqual(Object.keys(body.error).sort(), ['code', 'message', 'param', 'type'])
          assert.equal(body.error.type, 'invalid_request_error')
        }
      })

      it('that cannot be decoded are 400, and those too long 404', async () => {
        assertFault(await get('/api/token/%zz'), 'path')
        assertRefused(await get(`/api/token/${'1'.repeat(300)}`), 404, 'not_found')
      })

      it('are 405 for another method, with the allowed methods', async () => {
        const served = Map.groupBy(ROUTES, ({ path }) => path)
        for (const [path, routes] of served) {
          if (!path.startsWith('/api/')) continue
          const takes = routes.map(({ method }) => method)
          for (const method of METHODS.filter(each => !takes.some(allowedMethod => allowedMethod === each))) {
            const reply = await gateway.api(method, concrete(path), undefined, { token: null })
            assertRefused(reply, 405, 'method_not_allowed')
            assert.deepEqual(reply.headers.get('allow')?.split(', '), takes.toSorted(), `${method} ${path}`)
          }
        }
        for (const method of ['HEAD', 'OPTIONS']) {
          const { status, headers } = await fetch(`${url}/api/token/`, { method })
          assert.deepEqual([status, headers.get('allow')], [405, 'GET, POST, PUT'])
        }
      })

      it('with a word in place of a number do not exist, for any method', async () => {
        for (const path of ['/api/user/topup', '/api/channel/fix', '/api/channel/1/keys/first/status'])
          assertRefused(await gateway.api('PATCH', path, {}), 404, 'not_found')
      })

      it('that are public need no credential; all others respond 401 without one', async () => {
        const open = ['/api/status', '/api/setup', '/api/openapi.json', '/docs']
        for (const path of open)
          assert.equal((await gateway.api('GET', path, undefined, { token: null })).status, 200, path)
        for (const { method, path, access } of ROUTES) {
          if (access === 'public') continue
          const { status } = await gateway.api(method, concrete(path), undefined, { token: null })
          assert.equal(status, 401, `${method} ${path}`)
        }
      })
    })

    describe('a body', () => {
      it('that is not JSON is 400', async () => {
        for (const raw of [
          '{',
          '{"name":}',
          'name=x',
          "{'name':'x'}",
          '{"name":"x"} trailing',
          'NaN',
          '\u0000',
        ])
          assertFault(await post(raw), 'body')
      })

      it('that is JSON but not an object is 400', async () => {
        for (const raw of ['', 'null', '[]', '[{"name":"x"}]', '"name"', '5', 'true'])
          assertFault(await post(raw), 'body')
      })

      it('that is not UTF-8 is 400', async () => {
        const bytes = Buffer.concat([Buffer.from('{"name":"'), Buffer.from([0xc3, 0x28]), Buffer.from('"}')])
        const reply = await post(bytes)
        assertFault(reply, 'body')
        assert.match(reply.body.message, /UTF-8/)
      })

      it('may be nested 128 levels deep and no deeper; brackets in strings do not count', async () => {
        const nested = (depth: number) =>
          `{"name":"x","unknown":${'['.repeat(depth - 1)}${']'.repeat(depth - 1)}}`
        assert.equal((await post(nested(128))).status, 200)
        const reply = await post(nested(129))
        assertFault(reply, 'body')
        assert.match(reply.body.message, /128/)
        assert.equal((await post(`{"name":"x","unknown":"\\"${'['.repeat(1_000)}"}`)).status, 200)
        assertFault(await post('['.repeat(100_000)), 'body')
      })

      it('is read as JSON with any Content-Type', async () => {
        for (const type of [
          'text/plain',
          'application/x-www-form-urlencoded',
          'application/json; charset=utf-8',
        ])
          assert.equal((await post('{"name":"x"}', { 'content-type': type })).status, 200)
      })

      it('that is compressed is refused with that reason, because it is not supported here', async () => {
        const reply = await post('{"name":"x"}', { 'content-encoding': 'gzip' })
        assertFault(reply, 'body')
        assert.match(reply.body.message, /gzip/)
        assert.equal((await post('{"name":"x"}', { 'content-encoding': 'identity' })).status, 200)
      })

      it('that is too large is 413, with or without a content-length', async () => {
        assertRefused(await post(`{"name":"${'x'.repeat(4 * 1024 * 1024)}"}`), 413, 'too_large')
        const { status, body } = await sendInChunks(`${url}/api/token/`, 80, 'x'.repeat(64 * 1024))
        assert.deepEqual([status, body.code], [413, 'too_large'])
      })

      it('may contain unknown fields, also those of the query', async () => {
        const { status, body } = await gateway.api('POST', '/api/token/?unknown=1', {
          name: 'x',
          unknown: {},
        })
        assert.equal(status, 200)
        assert.equal('unknown' in body.data, false)
      })

      it('may have null for every optional field', () => {
        const refusing: string[] = []
        for (const [name, route] of Object.entries(contract as Record<string, Route>)) {
          const shape = shapeOf(route.body)
          for (const [field, schema] of Object.entries(shape))
            if (schema.safeParse(undefined).success && !schema.safeParse(null).success)
              refusing.push(`${name}.${field}`)
        }
        assert.deepEqual(refusing, [])
      })
    })

    describe('a text', () => {
      const texts: [string, string, (text: unknown) => object, number][] = [
        ['POST', '/api/token/', name => ({ name }), 50],
        ['POST', '/api/user/access_token/', name => ({ name }), 50],
        ['PUT', '/api/user/self', display_name => ({ display_name }), 64],
      ]
      const field = (body: object) => Object.keys(body)[0] as string

      it('is trimmed', async () => {
        for (const [method, path, body] of texts) {
          const requestBody = body(' \u3000 padded\u00a0\t ')
          const reply = await gateway.api(method, path, requestBody, { token: user.accessToken })
          assert.equal(reply.body.data[field(requestBody)], 'padded')
        }
      })

      it('is refused with a control character or half a surrogate pair', async () => {
        for (const [method, path, body] of texts) {
          for (const text of ['a\u0000b', 'a\u0007b', 'a\nb', 'a\u007fb', 'a\u0085b', 'a\ud83d'])
            assertFault(await gateway.api(method, path, body(text)), field(body(text)))
        }
      })

      it('has its length in code points', async () => {
        for (const [method, path, body, max] of texts) {
          const longest = '🌊'.repeat(max)
          const reply = await gateway.api(method, path, body(longest), { token: user.accessToken })
          assert.equal(reply.body.data[field(body(longest))], longest)
          assertFault(await gateway.api(method, path, body(`${longest}🌊`)), field(body('')))
          assertFault(await gateway.api(method, path, body('x'.repeat(max + 1))), field(body('')))
        }
      })

      it('is returned unchanged, in any language', async () => {
        for (const name of [
          'Ärger mit “Anführung”',
          '渠道一号',
          'مفتاح',
          '👩‍👩‍👧‍👦 <b>&amp;</b>',
          "'; drop table users;--",
        ])
          assert.equal((await gateway.api('POST', '/api/token/', { name })).body.data.name, name)
      })
    })

    describe('a list', () => {
      const OWN = '/api/token/'
      const list = async (query: string) =>
        (await gateway.api('GET', `${OWN}?${query}`, undefined, { token: owner.accessToken })).body.data
      let owner: typeof user
      let ids: number[]

      before(async () => {
        owner = await gateway.createUser()
        ids = []
        for (let i = 0; i < 12; i++) {
          const { body } = await gateway.api('POST', OWN, { name: `${i}` }, { token: owner.accessToken })
          ids.unshift(body.data.id)
        }
      })
      const idsOf = ({ items }: { items: { id: number }[] }) => items.map(({ id }) => id)

      it('contains page, page_size, total and items, ten at a time, newest first', async () => {
        const page = await list('')
        assert.deepEqual(Object.keys(page), ['page', 'page_size', 'total', 'items'])
        assert.deepEqual([page.page, page.page_size, page.total], [1, 10, 12])
        assert.deepEqual(idsOf(page), ids.slice(0, 10))
      })

      it('starts at page 1, which 0, a negative or no number also means', async () => {
        for (const query of ['p=1', 'p=0', 'p=-1', 'p=-5', 'p=', 'p=-0']) {
          const page = await list(query)
          assert.equal(page.page, 1, query)
          assert.deepEqual(idsOf(page), ids.slice(0, 10))
        }
        assert.deepEqual(idsOf(await list('p=2')), ids.slice(10))
      })

      it('accepts its size as page_size, ps or size', async () => {
        for (const alias of ['page_size', 'ps', 'size']) {
          const page = await list(`${alias}=5&p=2`)
          assert.deepEqual([page.page_size, idsOf(page)], [5, ids.slice(5, 10)], alias)
        }
        assert.equal((await list('page_size=3&ps=4&size=5')).page_size, 3)
        for (const query of ['page_size=0', 'page_size=-5', 'page_size=', 'ps=0'])
          assert.equal((await list(query)).page_size, 10)
        assert.equal((await list('page_size=0&size=7')).page_size, 7)
      })

      it('has at most 500 items per page: more is cut to 500', async () => {
        for (const size of ['500', '501', '1000000000', '9999999999999999'])
          assert.equal((await list(`page_size=${size}`)).page_size, 500)
      })

      it('is empty after its end, `[]` and never null', async () => {
        for (const p of ['3', '1000000', '999999999999']) {
          const page = await list(`p=${p}`)
          assert.deepEqual([page.items, page.total], [[], 12])
        }
      })

      it('refuses numbers that are not integers', async () => {
        for (const wrong of ['x', '1.5', '1e3', '0x10', '%D9%A3', '99999999999999999', '+', 'null', '1&p=2'])
          assertFault(await gateway.api('GET', `${OWN}?p=${wrong}`), 'p')
        for (const alias of ['page_size', 'ps', 'size'])
          assertFault(await gateway.api('GET', `${OWN}?${alias}=ten`), alias)
      })

      it('is paged by these rules on every route that has one', async () => {
        const lists = ROUTES.filter(
          ({ method, path, data }) => method === 'GET' && !path.includes(':') && 'items' in shapeOf(data),
        )
        assert.ok(lists.length >= 6)
        for (const { path, query } of lists) {
          const needed = 'model' in shapeOf(query) ? '&model=x' : ''
          const { status, body } = await get(`${path}?p=0&page_size=501${needed}`)
          assert.equal(status, 200, path)
          assert.deepEqual([body.data.page, body.data.page_size], [1, 500], path)
          assert.ok(Array.isArray(body.data.items), path)
          assert.equal((await get(`${path}?p=two${needed}`)).status, 400, path)
        }
      })
    })

    describe('public routes', () => {
      it('include the status, which names the currency unit', async () => {
        const { data } = (await gateway.api('GET', '/api/status', undefined, { token: null })).body
        assert.equal(data.quota_per_unit, 500_000)
        assert.equal(data.setup, true)
        assert.equal(typeof data.version, 'string')
        assert.ok(Math.abs(data.start_time - Date.now() / 1000) < 600)
      })

      it('include the announcements, which are empty', async () => {
        const { status, body } = await gateway.api('GET', '/api/notice', undefined, { token: null })
        assert.deepEqual([status, body.data], [200, ''])
      })

      it('include whether the gateway is set up, which is true from its first start', async () => {
        const { data } = (await gateway.api('GET', '/api/setup', undefined, { token: null })).body
        assert.deepEqual([data.status, data.root_init], [true, true])
        assertRefused(await gateway.api('POST', '/api/setup', {}, { token: null }), 405, 'method_not_allowed')
      })
    })

    describe('the document at /api/openapi.json', () => {
      // biome-ignore lint/suspicious/noExplicitAny: a document of several hundred shapes
      type Json = any
      let document: Json
      before(async () => {
        document = (await gateway.api('GET', '/api/openapi.json', undefined, { token: null })).body
      })
      const operations = (): [string, string, Json][] =>
        Object.entries<Json>(document.paths).flatMap(([path, item]) =>
          Object.entries<Json>(item).map(([method, operation]): [string, string, Json] => [
            method,
            path,
            operation,
          ]),
        )

      it('is OpenAPI 3.1 with a title, a version and a server', () => {
        assert.match(document.openapi, /^3\.1\.\d+$/)
        assert.ok(document.info.title && document.info.version)
        assert.equal(document.servers[0].url, '/')
      })

      it('contains every route of the contract and no other', () => {
        const documented = operations().map(([method, path]) => `${method.toUpperCase()} ${path}`)
        const promised = ROUTES.map(
          ({ method, path }) =>
            `${method} ${path.replaceAll(/:([a-z_]+)|\*/gi, (part, name = part) => `{${name}}`)}`,
        )
        assert.deepEqual(documented.sort(), promised.sort())
      })

      it('gives every operation a unique name, a summary, a tag and its responses', () => {
        const ids = operations().map(([, , { operationId }]) => operationId)
        assert.deepEqual(ids.toSorted(), Object.keys(contract).sort())
        const chapters = document.tags.map((tag: { name: string }) => tag.name)
        for (const [method, path, operation] of operations()) {
          const where = `${method} ${path}`
          assert.ok(operation.summary, where)
          assert.ok(operation.tags.length === 1 && chapters.includes(operation.tags[0]), where)
          assert.ok(operation.responses['200'], where)
          for (const [status, response] of Object.entries<Json>(operation.responses)) {
            assert.match(status, /^([1-5]\d\d|[1-5]XX|default)$/, where)
            assert.equal(typeof response.description, 'string', where)
          }
        }
      })

      it('declares every parameter of a path as required, and no others', () => {
        for (const [method, path, { parameters = [] }] of operations()) {
          const declared = parameters.filter((each: Json) => each.in === 'path')
          assert.ok(
            declared.every((each: Json) => each.required === true && each.schema),
            `${method} ${path}`,
          )
          assert.deepEqual(
            declared.map((each: Json) => each.name).sort(),
            [...path.matchAll(/\{(\w+|\*)\}/g)].map(([, name]) => name).sort(),
            `${method} ${path}`,
          )
        }
      })

      it('has no dangling reference, and no keyword of older versions', () => {
        const types = ['object', 'array', 'string', 'number', 'integer', 'boolean', 'null']
        const walk = (node: Json, at: string, isSchema: boolean): void => {
          if (Array.isArray(node)) {
            for (const [i, each] of node.entries()) walk(each, `${at}/${i}`, isSchema)
            return
          }
          if (node === null || typeof node !== 'object') return
          if (typeof node.$ref === 'string') {
            const target = node.$ref
              .replace(/^#\//, '')
              .split('/')
              .reduce((from: Json, key: string) => from?.[key], document)
            assert.ok(target, `${at}: ${node.$ref}`)
          }
          if (isSchema) {
            assert.ok(!('nullable' in node), `${at} says nullable`)
            if (node.type !== undefined)
              for (const type of [node.type].flat()) assert.ok(types.includes(type), `${at}: ${type}`)
            for (const name of node.required ?? [])
              assert.ok(Object.hasOwn(node.properties ?? {}, name), `${at} requires ${name}`)
            if (node.pattern !== undefined) assert.ok(new RegExp(node.pattern, 'u'))
          }
          for (const [key, value] of Object.entries(node)) {
            const under = `${at}/${key}`
            if (isSchema && key === 'properties')
              for (const [name, schema] of Object.entries(value as Json))
                walk(schema, `${under}/${name}`, true)
            else if (!['enum', 'const', 'default', 'example', 'examples', 'required'].includes(key))
              walk(value, under, isSchema || key === 'schema')
          }
        }
        walk(document.paths, '#/paths', false)
        for (const [name, schema] of Object.entries(document.components.schemas))
          walk(schema, `#/components/schemas/${name}`, true)
      })

      it('declares the required credential: none for public routes', () => {
        const byName = contract as Record<string, Route>
        for (const [method, path, operation] of operations()) {
          const isPublic = byName[operation.operationId]?.access === 'public'
          assert.equal(operation.security?.length === 0, isPublic, `${method} ${path}`)
        }
        assert.ok(document.security.length > 0)
      })
    })

    describe('the pages at / and /docs', () => {
      /** Everything that a page loads by itself or links to. */
      const linksOf = (html: string) =>
        [...html.matchAll(/\b(?:src|href)="([^"]+)"/g)].map(([, link]) => link)

      it('are served by the gateway, with everything they load', async () => {
        for (const page of ['/', '/docs', '/docs/']) {
          const { status, text, headers } = await gateway.api('GET', page, undefined, { token: null })
          assert.equal(status, 200)
          assert.match(headers.get('content-type') ?? '', /^text\/html/)
          const links = linksOf(text)
          assert.ok(links.length >= 3, page)
          for (const link of links) {
            const target = new URL(link as string, `${url}${page}`)
            assert.equal(target.origin, new URL(url).origin, `${page} loads ${link}`)
            assert.equal((await fetch(target)).status, 200, `${page} loads ${link}`)
          }
        }
      })

      it('may not load from other origins because of their policy', async () => {
        const policy = (await get('/docs')).headers.get('content-security-policy') ?? ''
        assert.match(policy, /default-src 'none'/)
        assert.doesNotMatch(policy, /https?:|\*|unsafe-eval/)
        assert.doesNotMatch(policy, /script-src[^;]*unsafe-inline/)
      })

      it('show the document of this gateway, and send it to no validator', async () => {
        const script = (await get('/docs/static/swagger-initializer.js')).text
        assert.match(script, /validatorUrl: null/)
        assert.match(script, /resolveUrl\('\.\/json'\)/)
        const shownDocument = (await gateway.api('GET', '/docs/json', undefined, { token: null })).body
        assert.deepEqual(shownDocument, (await get('/api/openapi.json')).body)
      })
    })
  })
}

/** The fields of an object's schema; none for other schemas. */
function shapeOf(schema: z.ZodType | undefined): Record<string, z.ZodType> {
  return schema !== undefined && 'shape' in schema ? (schema.shape as Record<string, z.ZodType>) : {}
}

/** A body without a content-length. */
const sendInChunks = (target: string, count: number, chunk: string) =>
  new Promise<{ status: number; body: { code: string } }>((resolve, reject) => {
    const clientRequest = request(
      target,
      { method: 'POST', headers: { authorization: `Bearer ${ROOT_TOKEN}` } },
      response => {
        let text = ''
        response.setEncoding('utf8')
        response.on('data', part => {
          text += part
        })
        response.on('end', () => resolve({ status: response.statusCode ?? 0, body: JSON.parse(text) }))
      },
    )
    clientRequest.on('error', reject)
    for (let i = 0; i < count; i++) clientRequest.write(chunk)
    clientRequest.end()
  })
