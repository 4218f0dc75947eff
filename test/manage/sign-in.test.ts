import assert from 'node:assert/strict'
import { request } from 'node:http'
import { before, describe, it } from 'node:test'
import { createThrottle } from '../../src/identity/throttle.ts'
import { oneEngine } from '../support/engines.ts'
import { type Asking, type Gateway, type Reply, ROOT_PASSWORD, suiteGateway } from '../support/gateway.ts'

const HOUR_S = 3_600
const DAY_S = 24 * HOUR_S
const SAME_ORIGIN = { 'sec-fetch-site': 'same-origin' }

const setCookie = ({ headers }: Reply) => headers.get('set-cookie') ?? ''
const cookieOf = (reply: Reply) => setCookie(reply).split(';')[0] as string
const attributesOf = (reply: Reply) =>
  setCookie(reply)
    .split(';')
    .slice(1)
    .map(part => part.trim().toLowerCase())
    .sort()

function assertRefused({ status, body }: Reply, expected: number, code: string): void {
  assert.deepEqual([status, body.success, body.code], [expected, false, code], JSON.stringify(body))
}

/**
 * Retries until it is throttled. Each wait is twice the previous one, so that even a slow machine soon
 * reaches one.
 */
async function untilRefused(ask: (i: number) => Promise<Reply>) {
  const replies: Reply[] = []
  for (let i = 0; i < 12; i++) {
    const reply = await ask(i)
    if (reply.status === 429) return { passed: replies, refused: reply }
    replies.push(reply)
  }
  assert.fail('never told to wait')
}

for (const engine of oneEngine('sqlite')) {
  describe(`signing in on ${engine} (docs/reference/management-api.md: Sign-in)`, () => {
    const gateway = suiteGateway({ engine, env: { SLUICE_TRUSTED_PROXIES: '127.0.0.1' } })
    type User = Awaited<ReturnType<Gateway['createUser']>>
    let alice: User

    before(async () => {
      alice = await gateway.createUser({ username: 'alice' })
    })

    const login = (username: string, password: string, headers: Asking['headers'] = {}) =>
      gateway.api('POST', '/api/user/login', { username, password }, { token: null, headers })
    const signIn = async (who: User = alice) => cookieOf(await login(who.username, who.password))
    const ask = (cookie: string, method: string, path: string, headers: Asking['headers'] = SAME_ORIGIN) =>
      gateway.api(method, path, undefined, { token: null, headers: { cookie, ...headers } })
    const self = (cookie: string, headers?: Asking['headers']) =>
      ask(cookie, 'GET', '/api/user/self', headers)

    describe('a login', () => {
      it('returns the user and sets the session cookie', async () => {
        const reply = await login('alice', alice.password)
        assert.equal(reply.status, 200)
        assert.equal(reply.body.data.id, alice.id)
        assert.ok(Math.abs(reply.body.data.last_login_time - Date.now() / 1000) < 60)
        assert.match(cookieOf(reply), /^sluice_session=[A-Za-z0-9]{48}$/)
        assert.equal((await self(cookieOf(reply))).body.data.username, 'alice')
      })

      it('finds the name regardless of case, width and surrounding spaces', async () => {
        for (const username of ['ALICE', ' alice ', 'ａlice'])
          assert.equal((await login(username, alice.password)).status, 200)
      })

      it('with a wrong password, name or disabled user always gets the same 401', async () => {
        const disabled = await gateway.createUser()
        await gateway.api('POST', '/api/user/manage', { id: disabled.id, action: 'disable' })
        const replies = [
          await login('alice', 'not the password'),
          await login('nobody-at-all', 'not the password'),
          await login(disabled.username, disabled.password),
        ]
        for (const reply of replies) {
          assertRefused(reply, 401, 'wrong_credentials')
          assert.equal(reply.body.message, replies[0]?.body.message)
          assert.equal(setCookie(reply), '')
        }
      })

      it('is refused with values that are not a name', async () => {
        for (const username of ["' or '1'='1", 'root" --', '%', '*', '😀'.repeat(100)])
          assertRefused(await login(username, 'xxxxxxxx'), 401, 'wrong_credentials')
        for (const body of [
          {},
          { username: 'alice' },
          { username: '', password: 'x' },
          { username: 'a\u0000b', password: 'x' },
          { username: ['alice'], password: 'x' },
          { username: 'alice', password: 'x'.repeat(1_025) },
        ])
          assertRefused(
            await gateway.api('POST', '/api/user/login', body, { token: null }),
            400,
            'invalid_request',
          )
      })

      it('creates a new session every time, and one does not end the other', async () => {
        const [first, second] = [await signIn(), await signIn()]
        assert.notEqual(first, second)
        assert.equal((await self(first)).status, 200)
        assert.equal((await self(second)).status, 200)
        const third = await gateway.api(
          'POST',
          '/api/user/login',
          { username: 'alice', password: alice.password },
          { token: null, headers: { cookie: 'sluice_session=chosen-by-somebody-else' } },
        )
        assert.ok(!cookieOf(third).includes('chosen-by-somebody-else'))
      })

      it('needs no extra header and works over plain HTTP on any host name', async () => {
        const origin = gateway.url.replace('127.0.0.1', 'lan-host')
        const host = new URL(origin).host
        const body = JSON.stringify({ username: 'alice', password: alice.password })
        const reply = await raw(gateway.url, 'POST', '/api/user/login', { host, origin }, body)
        assert.equal(reply.status, 200)
        const cookie = reply.cookie.split(';')[0] as string
        assert.equal((await raw(gateway.url, 'GET', '/api/user/self', { host, origin, cookie })).status, 200)
      })
    })

    describe('the session cookie', () => {
      it('is HttpOnly, SameSite=Strict, for the whole site, and not Secure over plain HTTP', async () => {
        assert.deepEqual(attributesOf(await login('alice', alice.password)), [
          'httponly',
          `max-age=${7 * DAY_S}`,
          'path=/',
          'samesite=strict',
        ])
      })

      it('is Secure if a trusted proxy reports that the request used TLS', async () => {
        const reply = await login('alice', alice.password, { 'x-forwarded-proto': 'https' })
        assert.ok(attributesOf(reply).includes('secure'))
      })

      it('is accepted only for calls from the gateway’s own pages', async () => {
        const cookie = await signIn()
        const { origin } = new URL(gateway.url)
        const counts: Asking['headers'][] = [
          { 'sec-fetch-site': 'same-origin' },
          { 'sec-fetch-site': 'same-origin', origin },
          {},
          { origin },
        ]
        for (const headers of counts)
          assert.equal((await self(cookie, headers)).status, 200, JSON.stringify(headers))
        const doesNot: Asking['headers'][] = [
          { 'sec-fetch-site': 'cross-site' },
          { 'sec-fetch-site': 'same-site' },
          { 'sec-fetch-site': 'none' },
          { 'sec-fetch-site': 'cross-site', origin },
          { origin: 'https://evil.example' },
          { origin: 'null' },
          { origin: `${origin}.evil.example` },
          { origin: origin.replace('127.0.0.1', 'localhost') },
          { origin: 'not a url' },
        ]
        for (const headers of doesNot)
          assert.equal((await self(cookie, headers)).status, 401, JSON.stringify(headers))
      })

      it('lets no other page change anything, by GET or by a form', async () => {
        const cookie = await signIn()
        const before = (await gateway.api('GET', '/api/audit/?page_size=1')).body.data.total
        const evil = { 'sec-fetch-site': 'cross-site', origin: 'https://evil.example' }
        for (const [method, path] of [
          ['POST', '/api/token/'],
          ['GET', '/api/user/token'],
          ['DELETE', '/api/user/self'],
          ['PUT', '/api/user/self'],
        ] as const)
          assert.equal((await ask(cookie, method, path, evil)).status, 401)
        assert.equal((await gateway.api('GET', '/api/audit/?page_size=1')).body.data.total, before)
      })

      it('does not replace a wrong access token', async () => {
        const cookie = await signIn()
        const reply = await gateway.api('GET', '/api/user/self', undefined, {
          token: 'sat-wrong',
          headers: { cookie, ...SAME_ORIGIN },
        })
        assert.equal(reply.status, 401)
      })

      it('that is forged or empty is 401', async () => {
        for (const value of ['', 'x', 'a'.repeat(48), encodeURIComponent("' or '1'='1")])
          assertRefused(await self(`sluice_session=${value}`), 401, 'unauthorized')
      })
    })

    describe('a session', () => {
      const edit = (cookie: string, fields: { created_time?: number; last_seen_time?: number }) =>
        lastSession().then(({ id }) =>
          gateway.db
            .updateTable('sessions')
            .set(fields)
            .where('id', '=', id)
            .execute()
            .then(() => cookie),
        )
      const lastSession = () =>
        gateway.db.selectFrom('sessions').selectAll().orderBy('id', 'desc').limit(1).executeTakeFirstOrThrow()
      const ago = (seconds: number) => Math.floor(Date.now() / 1000) - seconds

      it('ends 12 hours after its last use', async () => {
        const cookie = await edit(await signIn(), { last_seen_time: ago(12 * HOUR_S - 60) })
        assert.equal((await self(cookie)).status, 200)
        await edit(cookie, { last_seen_time: ago(12 * HOUR_S + 60) })
        assertRefused(await self(cookie), 401, 'unauthorized')
      })

      it('ends 7 days after it started, with any amount of use', async () => {
        const cookie = await edit(await signIn(), { created_time: ago(7 * DAY_S - 60) })
        assert.equal((await self(cookie)).status, 200)
        await edit(cookie, { created_time: ago(7 * DAY_S + 60) })
        assertRefused(await self(cookie), 401, 'unauthorized')
      })

      it('is extended by use', async () => {
        const cookie = await edit(await signIn(), { last_seen_time: ago(HOUR_S) })
        await self(cookie)
        assert.ok((await lastSession()).last_seen_time > ago(60))
      })

      it('is stored as a digest, never as the value of the cookie', async () => {
        const cookie = await signIn()
        const value = cookie.split('=')[1] as string
        assert.ok(
          !JSON.stringify(await gateway.db.selectFrom('sessions').selectAll().execute()).includes(value),
        )
      })

      it('is listed with its origin, and the current one is marked', async () => {
        const user = await gateway.createUser()
        const reply = await login(user.username, user.password, {
          'user-agent': 'Test Browser',
          'x-forwarded-for': '203.0.113.9',
        })
        const other = await signIn(user)
        const { data } = (await ask(cookieOf(reply), 'GET', '/api/user/sessions')).body
        assert.deepEqual(
          data.map(({ current, address }: { current: boolean; address: string }) => [current, address]),
          [
            [false, '127.0.0.1'],
            [true, '203.0.113.9'],
          ],
        )
        const [, mine] = data
        assert.equal(mine.user_agent, 'Test Browser')
        assert.equal(mine.expires_time, mine.last_seen_time + 12 * HOUR_S)
        assert.equal((await self(other)).status, 200)
        await edit(other, { last_seen_time: ago(13 * HOUR_S) })
        assert.equal((await ask(cookieOf(reply), 'GET', '/api/user/sessions')).body.data.length, 1)
      })

      it('is ended only by its owner, also from another session', async () => {
        const user = await gateway.createUser()
        const [first, second] = [await signIn(user), await signIn(user)]
        const [{ id: secondId }, { id: firstId }] = (await ask(first, 'GET', '/api/user/sessions')).body.data
        const stranger = await signIn()
        assertRefused(await ask(stranger, 'DELETE', `/api/user/sessions/${secondId}`), 404, 'not_found')
        assert.equal((await ask(first, 'DELETE', `/api/user/sessions/${secondId}`)).status, 200)
        assert.equal((await self(second)).status, 401)
        assertRefused(await ask(first, 'DELETE', `/api/user/sessions/${secondId}`), 404, 'not_found')
        assert.equal((await ask(first, 'DELETE', `/api/user/sessions/${firstId}`)).status, 200)
        assert.equal((await self(first)).status, 401)
      })

      it('can end all others in one call; an access token ends them all', async () => {
        const user = await gateway.createUser()
        const [first, second, third] = [await signIn(user), await signIn(user), await signIn(user)]
        assert.equal((await ask(first, 'POST', '/api/user/sessions/revoke-others')).body.data, 2)
        assert.deepEqual(
          [(await self(first)).status, (await self(second)).status, (await self(third)).status],
          [200, 401, 401],
        )
        const { body } = await gateway.api('POST', '/api/user/sessions/revoke-others', undefined, {
          token: user.accessToken,
        })
        assert.equal(body.data, 1)
        assert.equal((await self(first)).status, 401)
      })

      it('ends with every other one when the password is changed', async () => {
        const user = await gateway.createUser()
        const [first, second] = [await signIn(user), await signIn(user)]
        const reply = await gateway.api(
          'PUT',
          '/api/user/self',
          { password: 'something new', original_password: user.password },
          { token: null, headers: { cookie: first, ...SAME_ORIGIN } },
        )
        assert.equal(reply.status, 200)
        assert.deepEqual([(await self(first)).status, (await self(second)).status], [401, 401])
      })

      it('that ended is kept for 30 days', async () => {
        const remembered = async (id: number) =>
          (await gateway.db.selectFrom('sessions').select('id').where('id', '=', id).execute()).length
        await ask(await signIn(), 'POST', '/api/user/logout')
        const { id } = await lastSession()
        const endedAgo = (seconds: number) =>
          gateway.db
            .updateTable('sessions')
            .set({ ended_time: ago(seconds) })
            .where('id', '=', id)
            .execute()
        await endedAgo(29 * DAY_S)
        await signIn()
        assert.equal(await remembered(id), 1)
        await endedAgo(31 * DAY_S)
        await signIn()
        assert.equal(await remembered(id), 0)
      })
    })

    describe('a logout', () => {
      it('by GET or POST ends the session on the server and clears the cookie', async () => {
        for (const method of ['GET', 'POST']) {
          const cookie = await signIn()
          const reply = await ask(cookie, method, '/api/user/logout')
          assert.deepEqual([reply.status, reply.body], [200, { success: true, message: '' }])
          assert.match(setCookie(reply), /^sluice_session=;.*Expires=Thu, 01 Jan 1970/i)
          assert.equal((await self(cookie)).status, 401)
        }
      })

      it('without a session is a success as well', async () => {
        for (const cookie of ['', 'sluice_session=unknown'])
          assert.equal((await ask(cookie, 'POST', '/api/user/logout')).status, 200)
      })

      it('by a page of another site does not sign the user out', async () => {
        const cookie = await signIn()
        for (const [method, headers] of [
          ['GET', { 'sec-fetch-site': 'cross-site' }],
          ['POST', { origin: 'https://evil.example' }],
        ] as const) {
          assert.equal(setCookie(await ask(cookie, method, '/api/user/logout', headers)), '')
          assert.equal((await self(cookie)).status, 200)
        }
      })
    })

    describe('guessing passwords', () => {
      it('is 429 with Retry-After after five failures of an account from an address', async () => {
        const user = await gateway.createUser()
        const from = { 'x-forwarded-for': '198.51.100.1' }
        const { passed: replies, refused } = await untilRefused(i => login(user.username, `guess ${i}`, from))
        assert.ok(replies.length >= 5)
        for (const reply of replies) assertRefused(reply, 401, 'wrong_credentials')
        assertRefused(refused, 429, 'rate_limited')
        assert.match(refused.headers.get('retry-after') ?? '', /^[1-9]\d*$/)
        const elsewhere = await login(user.username, user.password, { 'x-forwarded-for': '198.51.100.2' })
        assert.equal(elsewhere.status, 200)
      })

      it('tells clients apart if the proxy sends their ports too', async () => {
        const user = await gateway.createUser()
        for (const [one, other, address] of [
          ['198.51.100.31:4711', '198.51.100.32:4711', '198.51.100.32'],
          ['[2001:db8:1::1]:4711', '[2001:db8:2::1]', '2001:db8:2::1'],
        ] as const) {
          await untilRefused(i => login(user.username, `guess ${i}`, { 'x-forwarded-for': one }))
          const reply = await login(user.username, user.password, { 'x-forwarded-for': other })
          assert.equal(reply.status, 200, reply.text)
          const { data } = (await ask(cookieOf(reply), 'GET', '/api/user/sessions')).body
          assert.equal(data[0].address, address)
        }
      })

      it('with concurrent attempts does not avoid the limit', async () => {
        const user = await gateway.createUser()
        const from = { 'x-forwarded-for': '198.51.100.3' }
        const replies = await Promise.all(
          Array.from({ length: 20 }, (_, i) => login(user.username, `guess ${i}`, from)),
        )
        const guessed = replies.filter(({ status }) => status === 401).length
        // Five, and one more for each wait that expired on a slow machine.
        assert.ok(guessed >= 5 && guessed <= 9, `${guessed} guesses`)
        assert.equal(replies.filter(({ status }) => status === 429).length, 20 - guessed)
      })

      it('is throttled by the case-folded name', async () => {
        await gateway.createUser({ username: 'folded' })
        const spelled = ['folded', 'FOLDED', ' Folded', 'ｆolded', 'folDED']
        const from = { 'x-forwarded-for': '198.51.100.4' }
        const { refused } = await untilRefused(i =>
          login(spelled[i % spelled.length] as string, 'a wrong guess', from),
        )
        assertRefused(refused, 429, 'rate_limited')
      })

      it('is in the audit log without the attempted name', async () => {
        await login('my secret typed in the wrong field', 'x')
        const { items } = (await gateway.api('GET', '/api/audit/?action=user.login_failed&page_size=1')).body
          .data
        assert.deepEqual([items[0].actor_id, items[0].target, items[0].via], [0, 'user:unknown', 'password'])
        assert.ok(!JSON.stringify(items).includes('my secret'))
      })
    })

    describe('registration', () => {
      const register = (body: object, address: string) =>
        gateway.api('POST', '/api/user/register', body, {
          token: null,
          headers: { 'x-forwarded-for': address },
        })
      const switchTo = (registration: boolean | null) => gateway.api('PUT', '/api/setting/', { registration })

      it('is disabled until it is enabled', async () => {
        const refused = await register({ username: 'early', password: 'long enough' }, '192.0.2.1')
        assertRefused(refused, 403, 'forbidden')
        assert.equal((await gateway.api('GET', '/api/status')).body.data.register_enabled, false)
        assert.equal((await gateway.api('GET', '/api/user/?keyword=early')).body.data.total, 0)
      })

      it('then creates accounts with the role User only, for any body', async () => {
        await switchTo(true)
        assert.equal((await gateway.api('GET', '/api/status')).body.data.register_enabled, true)
        const { status, body } = await register(
          {
            username: 'newcomer',
            password: 'long enough',
            display_name: 'New',
            email: 'new@example.com',
            role: 100,
            quota: 1_000,
            unlimited_quota: true,
            limits: { rpm: 5 },
          },
          '192.0.2.2',
        )
        assert.equal(status, 200)
        const { role, quota, unlimited_quota, display_name, email, limits } = body.data
        assert.deepEqual([role, quota, unlimited_quota], [1, 0, false])
        assert.deepEqual([display_name, email, limits.rpm], ['New', 'new@example.com', null])
        assert.equal((await login('newcomer', 'long enough')).status, 200)
        assertRefused(
          await register({ username: 'Newcomer', password: 'long enough' }, '192.0.2.2'),
          409,
          'conflict',
        )
        assertRefused(
          await register({ username: 'x', password: 'short' }, '192.0.2.2'),
          400,
          'invalid_request',
        )
        await switchTo(null)
        assertRefused(
          await register({ username: 'late', password: 'long enough' }, '192.0.2.2'),
          403,
          'forbidden',
        )
      })

      it('throttles an address that creates many accounts, and no user’s sign-in', async () => {
        await switchTo(true)
        const user = await gateway.createUser({ username: 'registration' })
        const { passed: replies, refused } = await untilRefused(i =>
          register({ username: `many-${i}`, password: 'long enough' }, '192.0.2.3'),
        )
        assert.ok(replies.length >= 5)
        for (const { status } of replies) assert.equal(status, 200)
        assertRefused(refused, 429, 'rate_limited')
        assert.ok(Number(refused.headers.get('retry-after')) >= 1)
        const from = { 'x-forwarded-for': '192.0.2.3' }
        assert.equal((await login('registration', user.password, from)).status, 200)
        await switchTo(null)
      })
    })
  })
}

describe('behind a proxy with a path prefix (docs/reference/process.md: Base path)', () => {
  const gateway = suiteGateway({ engine: 'sqlite', env: { SLUICE_BASE_PATH: '/gate' } })
  const login = (headers: Asking['headers']) =>
    gateway.api(
      'POST',
      '/api/user/login',
      { username: 'root', password: ROOT_PASSWORD },
      { token: null, headers: headers ?? {} },
    )

  it('the cookie is for that path', async () => {
    assert.ok(attributesOf(await login({})).includes('path=/gate'))
  })

  it('an untrusted proxy is ignored: neither its TLS nor its addresses', async () => {
    const reply = await login({ 'x-forwarded-proto': 'https', 'x-forwarded-for': '203.0.113.9' })
    assert.ok(!attributesOf(reply).includes('secure'))
    const { data } = (
      await gateway.api('GET', '/api/user/sessions', undefined, {
        token: null,
        headers: { cookie: cookieOf(reply), ...SAME_ORIGIN },
      })
    ).body
    assert.equal(data[0].address, '127.0.0.1')
  })
})

describe('the sign-in throttle', () => {
  const start = () => {
    const clock = { ms: 1_000_000 }
    const throttle = createThrottle(() => clock.ms)
    /** Seconds to wait, 0 if the attempt was allowed. */
    const { attempt } = throttle
    const fail = (times: number, account = 'alice', address = '10.0.0.1') => {
      for (let i = 0; i < times; i++) {
        const wait = attempt(account, address)
        clock.ms += wait * 1_000
        if (wait > 0) assert.equal(attempt(account, address), 0)
      }
    }
    return { clock, attempt, fail, succeed: throttle.succeed }
  }

  it('allows five failures of an account from an address, then doubles the wait with each', () => {
    const { attempt, clock } = start()
    for (let i = 0; i < 5; i++) assert.equal(attempt('alice', '10.0.0.1'), 0)
    for (const wait of [1, 2, 4, 8, 16]) {
      assert.equal(attempt('alice', '10.0.0.1'), wait)
      clock.ms += wait * 1_000 - 1
      assert.equal(attempt('alice', '10.0.0.1'), 1)
      clock.ms += 1
      assert.equal(attempt('alice', '10.0.0.1'), 0)
    }
  })

  it('does not lengthen the wait for attempts during it', () => {
    const { attempt } = start()
    for (let i = 0; i < 5; i++) attempt('alice', '10.0.0.1')
    for (let i = 0; i < 100; i++) assert.equal(attempt('alice', '10.0.0.1'), 1)
  })

  it('never waits longer than a quarter of an hour', () => {
    const { attempt, fail } = start()
    fail(40)
    assert.equal(attempt('alice', '10.0.0.1'), 900)
  })

  it('does not affect other accounts, or the same account from other addresses', () => {
    const { attempt, fail } = start()
    fail(6)
    assert.equal(attempt('bob', '10.0.0.1'), 0)
    assert.equal(attempt('alice', '10.0.0.2'), 0)
  })

  it('delays an account attacked from many addresses by seconds only', () => {
    const { attempt, fail } = start()
    for (let i = 0; i < 40; i++) fail(1, 'alice', `10.0.1.${i}`)
    const wait = attempt('alice', '10.9.9.9')
    assert.ok(wait > 0 && wait <= 15, `${wait} s`)
    assert.equal(attempt('bob', '10.9.9.9'), 0)
  })

  it('delays an address that tries many accounts, after fifty', () => {
    const { attempt, fail } = start()
    for (let i = 0; i < 49; i++) fail(1, `user-${i}`)
    assert.equal(attempt('user-x', '10.0.0.1'), 0)
    assert.equal(attempt('user-y', '10.0.0.1'), 1)
    assert.equal(attempt('user-y', '10.0.0.2'), 0)
  })

  it('resets an account’s failures after five minutes without one', () => {
    const { attempt, fail, clock } = start()
    fail(4)
    clock.ms += 5 * 60_000
    fail(1)
    assert.equal(attempt('alice', '10.0.0.1'), 1)
    clock.ms += 5 * 60_000 + 1_001
    for (let i = 0; i < 5; i++) assert.equal(attempt('alice', '10.0.0.1'), 0)
  })

  it('resets an address’s failures after an hour without one', () => {
    const { attempt, fail, clock } = start()
    for (let i = 0; i < 49; i++) fail(1, `user-${i}`)
    clock.ms += 60 * 60_000
    assert.equal(attempt('user-x', '10.0.0.1'), 0)
    assert.equal(attempt('user-y', '10.0.0.1'), 1)
    clock.ms += 60 * 60_000 + 1_001
    for (let i = 0; i < 50; i++) assert.equal(attempt(`again-${i}`, '10.0.0.1'), 0)
  })

  it('resets an account’s failures when its owner signs in', () => {
    const { attempt, succeed } = start()
    for (let round = 0; round < 10; round++) {
      for (let i = 0; i < 4; i++) assert.equal(attempt('alice', '10.0.0.1'), 0)
      succeed('alice', '10.0.0.1')
    }
  })

  it('counts no success against an address, and no success resets its failures', () => {
    const { attempt, succeed } = start()
    for (let i = 0; i < 200; i++) {
      assert.equal(attempt(`user-${i}`, '10.0.0.1'), 0)
      succeed(`user-${i}`, '10.0.0.1')
    }
    for (let i = 0; i < 49; i++) {
      assert.equal(attempt(`guessed-${i}`, '10.0.0.1'), 0)
      assert.equal(attempt('mine', '10.0.0.1'), 0)
      succeed('mine', '10.0.0.1')
    }
    assert.equal(attempt('guessed-49', '10.0.0.1'), 0)
    assert.ok(attempt('guessed-50', '10.0.0.1') > 0)
  })

  it('uses bounded memory for any number of names', () => {
    const { attempt } = start()
    for (let i = 0; i < 5; i++) attempt('first', '10.0.0.1')
    assert.equal(attempt('first', '10.0.0.1'), 1)
    for (let i = 0; i < 20_000; i++) attempt(`name-${i}`, `address-${i}`)
    assert.equal(attempt('first', '10.0.0.1'), 0)
  })
})

/** A request with headers that `fetch` does not let a caller set. */
function raw(
  base: string,
  method: string,
  path: string,
  headers: Readonly<Record<string, string>>,
  body?: string,
): Promise<{ status: number; cookie: string }> {
  return new Promise((resolve, reject) => {
    const clientRequest = request(`${base}${path}`, { method, headers }, response => {
      response.resume()
      response.on('end', () =>
        resolve({
          status: response.statusCode ?? 0,
          cookie: response.headers['set-cookie']?.[0] ?? '',
        }),
      )
    })
    clientRequest.on('error', reject)
    clientRequest.end(body)
  })
}
