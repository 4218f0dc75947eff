import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { contract } from '../../../src/manage/contract/index.ts'
import type { Route } from '../../../src/manage/contract/route.ts'
import { type Asking, type Gateway, suiteGateway } from '../../support/gateway.ts'

const FORM_TYPES = [
  'text/plain',
  'text/plain;charset=UTF-8',
  'application/x-www-form-urlencoded',
  'multipart/form-data; boundary=x',
]

/**
 * A page of another site cannot read the response to its post, but could sign its visitor in under an account
 * of its choice.
 */
describe('a page of another site', () => {
  const gateway = suiteGateway({ engine: 'sqlite' })
  let mallory: Awaited<ReturnType<Gateway['createUser']>>
  before(async () => {
    mallory = await gateway.createUser({ username: 'mallory' })
    await gateway.api('PUT', '/api/setting/', { registration: true })
  })

  const post = (path: string, headers: NonNullable<Asking['headers']>, username = 'mallory') =>
    gateway.api('POST', path, { username, password: mallory.password }, { token: null, headers })

  async function assertRefused(path: string, headers: NonNullable<Asking['headers']>): Promise<void> {
    const reply = await post(path, headers, path.endsWith('register') ? 'made-elsewhere' : 'mallory')
    assert.deepEqual(
      [reply.status, reply.body.success, reply.body.code],
      [403, false, 'cross_site_refused'],
      JSON.stringify(headers),
    )
    assert.equal(reply.headers.get('set-cookie'), null)
  }

  for (const path of ['/api/user/login', '/api/user/register']) {
    it(`cannot post to ${path}, with any content type`, async () => {
      for (const type of [...FORM_TYPES, 'application/json'])
        for (const origin of [
          { 'sec-fetch-site': 'cross-site' },
          { 'sec-fetch-site': 'same-site' },
          { 'sec-fetch-site': 'cross-site', origin: new URL(gateway.url).origin },
          { origin: 'https://evil.example' },
          { origin: 'null' },
        ])
          await assertRefused(path, { 'content-type': type, ...origin })
    })

    it(`cannot post a form to ${path} if the browser sends no header about the page`, async () => {
      for (const type of FORM_TYPES) await assertRefused(path, { 'content-type': type })
    })
  }

  it('creates no session, no account and no audit record', async () => {
    const count = async (table: 'sessions' | 'users' | 'audit') =>
      (await gateway.db.selectFrom(table).selectAll().execute()).length
    const counts = () => Promise.all([count('sessions'), count('users'), count('audit')])
    const before = await counts()
    await assertRefused('/api/user/login', { origin: 'https://evil.example' })
    await assertRefused('/api/user/register', { origin: 'https://evil.example' })
    assert.deepEqual(await counts(), before)
  })

  it('is distinguished from the console and from programs, which sign in as before', async () => {
    const { origin } = new URL(gateway.url)
    for (const headers of [
      { 'sec-fetch-site': 'same-origin', origin, 'content-type': 'application/json' },
      { origin, 'content-type': 'application/json; charset=utf-8' },
      { 'content-type': 'application/json' },
    ])
      assert.equal((await post('/api/user/login', headers)).status, 200, JSON.stringify(headers))
  })

  it('cannot use any other public route that changes something', () => {
    const open = Object.entries<Route>(contract)
      .filter(([, { access, method, refusesOtherSites }]) => {
        return access === 'public' && method !== 'GET' && !refusesOtherSites
      })
      .map(([name]) => name)
    // Signing out applies to the cookie's own site only.
    assert.deepEqual(open, ['logout'])
  })
})
