import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { type Simulator, startSimulator } from '../../../simulator/server.ts'
import { type RetryOptions, retryingFetch } from '../../support/client.ts'
import { runHere } from '../../support/command.ts'
import { type FleetMember, SHORT_FENCE, startFleet, type TestFleet } from '../../support/fleet.ts'
import { run, settingsOf, until, verifyThroughSocket } from '../../support/process.ts'
import { createResources } from '../../support/relay.ts'

describe('a node that is stopped or given up (docs/operating/fleet.md: A node is lost)', () => {
  let simulator: Simulator | undefined
  let fleet: TestFleet
  let resources: ReturnType<typeof createResources>
  let a: FleetMember

  before(async () => {
    simulator = await startSimulator()
    fleet = await startFleet(2, {
      ...SHORT_FENCE,
      SLUICE_DRAIN_DELAY_S: '0',
      SLUICE_VIDEO_DOUBT_S: '20',
    })
    a = fleet.members[0] as FleetMember
    resources = createResources(a.server.api, simulator.url)
  })
  after(async () => {
    await fleet?.close()
    await simulator?.close()
  })

  const idOf = ({ dataDir }: FleetMember) => readdirSync(join(dataDir, 'nodes'))[0] as string
  const stateOf = async (id: string) =>
    ((await resources.must(a.server.api('GET', '/api/node/'))) as { id: string; state: string }[]).find(
      node => node.id === id,
    )?.state
  const chat = ({ server }: FleetMember, key: string, model: string, options: RetryOptions = {}) =>
    retryingFetch(
      `${server.url}/v1/chat/completions`,
      {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: JSON.stringify({ model, messages: [{ role: 'user', content: 'Hi' }] }),
      },
      options,
    )

  it('is stopped by another one, and leaves', async () => {
    const c = await fleet.startMember()
    const id = idOf(c)
    const reply = await a.server.api('POST', `/api/node/${id}/drain`)
    assert.deepEqual([reply.status, reply.body.data], [200, { id, state: 'draining' }], reply.text)
    assert.equal((await c.server.ended).code, 0)
    assert.equal(await stateOf(id), undefined)
  })

  it('is retired when it is fenced: its leases return, and what it may have spent is unresolved', async () => {
    const { model } = await resources.serve('sim-words-400-pace-50', {}, { per_call: 0.01 })
    const user = await resources.must(
      a.server.api('POST', '/api/user/', { username: 'payer', password: 'a long password', quota: 500_000 }),
    )
    const signedIn = await a.server.api(
      'POST',
      '/api/user/login',
      { username: 'payer', password: 'a long password' },
      { token: null },
    )
    const cookie = (signedIn.headers.get('set-cookie') ?? '').split(';')[0] ?? ''
    const token = await a.server.api(
      'POST',
      '/api/token/',
      { name: 'app', unlimited_quota: true },
      { token: null, headers: { cookie, 'sec-fetch-site': 'same-origin' } },
    )
    const c = await fleet.startMember()
    const id = idOf(c)
    // The request is running when the machine dies.
    const running = chat(c, token.body.data.key, model).catch(() => undefined)
    await until('a lease', async () =>
      (await resources.must(a.server.api('GET', '/api/node/'))).some(
        (node: { id: string; leased: string }) => node.id === id && Number(node.leased) > 0,
      )
        ? true
        : undefined,
    )
    const early = await a.server.api('POST', `/api/node/${id}/retire`)
    assert.equal(early.status, 409, early.text)
    await c.server.kill()
    await running
    await until('the node to be fenced', async () => ((await stateOf(id)) === 'fenced' ? true : undefined))
    const env = settingsOf({ dataDir: a.dataDir, databaseUrl: fleet.databaseUrl })
    const listed = await runHere(['node', 'list'], { env })
    assert.match(listed.stdout, new RegExp(`${id}.*fenced`))
    const retired = await run(['node', 'retire', id], { env })
    assert.equal(retired.code, 0, retired.stderr)
    assert.match(retired.stdout, /may have spent/)
    assert.equal(await stateOf(id), 'retired')
    const { quota, held_quota } = await resources.must(a.server.api('GET', `/api/user/${user.id}`))
    assert.deepEqual({ quota, held_quota }, { quota: 500_000, held_quota: 0 })
    const open = await resources.must(a.server.api('GET', '/api/ledger/suspense?open=true'))
    assert.ok(
      open.items.some(
        (item: { request_id: string; user_id: number }) =>
          item.request_id === `node:${id}` && item.user_id === user.id,
      ),
    )
    // Its journal comes back: it is refused, in one sentence.
    await assert.rejects(fleet.startMember(c.dataDir), (error: Error) => {
      assert.match(error.message, /sluice: the node \S+ was retired[^\n]*move its folder "nodes\//)
      assert.doesNotMatch(error.message, /\n +at /)
      return true
    })
    for (const member of fleet.members.slice(0, 2)) {
      const { ok, lines } = await verifyThroughSocket(member)
      assert.ok(ok, lines.join('\n'))
    }
  })

  it('is not ready when it goes on although it is retired', async () => {
    const { model } = await resources.serve('sim-words-1')
    const { key } = await resources.newToken({ unlimited_quota: true })
    const c = await fleet.startMember()
    const id = idOf(c)
    const readiness = async () => (await retryingFetch(`${c.server.url}/readyz`)).status
    assert.equal(await readiness(), 200)
    c.proxy.set('hang')
    await until('the node to be fenced', async () => ((await stateOf(id)) === 'fenced' ? true : undefined))
    await resources.must(a.server.api('POST', `/api/node/${id}/retire`))
    c.proxy.set('pass')
    await until('the node to reach the store', async () =>
      c.server.lines().some(({ msg }) => /This node is retired/.test(String(msg))) ? true : undefined,
    )
    const refused = await chat(c, key, model, { expectedRefusal: 'ledger_unavailable' })
    assert.equal(refused.status, 503)
    assert.equal(await readiness(), 503)
    assert.equal((await retryingFetch(`${c.server.url}/healthz`)).status, 200)
  })

  it('gives its unconfirmed video jobs to the others when it is retired', async () => {
    const upstream = simulator as Simulator
    const { model } = await resources.serve('sim-video-hang', {}, { per_call: 0.01 })
    const { model: refusing } = await resources.serve('sim-video-status-500', {}, { per_call: 0.02 })
    const { key } = await resources.newToken({ unlimited_quota: true })
    const c = await fleet.startMember()
    const id = idOf(c)
    const submit = ({ server }: FleetMember, of: string, prompt: string) =>
      server.api(
        'POST',
        '/v1/videos',
        { model: of, prompt },
        { token: key, headers: { 'idempotency-key': prompt } },
      )
    const unconfirmed = await submit(c, refusing, 'never-made')
    assert.equal(unconfirmed.status, 504, unconfirmed.text)
    const cut = submit(c, model, 'made-once').catch(() => undefined)
    await until('the provider to have the job', async () => {
      const { jobs } = (await (await retryingFetch(`${upstream.url}/sim/videos`)).json()) as {
        jobs: { prompt: string }[]
      }
      return jobs.some(({ prompt }) => prompt === 'made-once') ? true : undefined
    })
    await c.server.kill()
    await cut
    await until('the node to be fenced', async () => ((await stateOf(id)) === 'fenced' ? true : undefined))
    await resources.must(a.server.api('POST', `/api/node/${id}/retire`))
    const { body, status, text } = await submit(a, model, 'made-once')
    assert.equal(status, 200, text)
    const ended = (jobId: string) =>
      until('the end of the job', async () => {
        const video = await resources.must(a.server.api('GET', `/api/video/${jobId}`))
        return video.status === 'completed' || video.status === 'failed' ? video : undefined
      })
    const completed = await ended(body.id)
    assert.deepEqual([completed.status, completed.cost], ['completed', '0.01'])
    const failed = await ended(unconfirmed.headers.get('x-sluice-video-id') ?? '')
    assert.deepEqual([failed.status, failed.error?.code], ['failed', 'upstream_timeout'])
    // What the provider may charge for it is unresolved.
    const open = await resources.must(a.server.api('GET', '/api/ledger/suspense?open=true'))
    const amounts = open.items
      .filter(({ channel_id }: { channel_id: number }) => channel_id > 0)
      .map(({ cost }: { cost: string }) => cost)
    assert.deepEqual(amounts, ['0.02'])
    const { ok, lines } = await verifyThroughSocket(a)
    assert.ok(ok, lines.join('\n'))
  })
})
