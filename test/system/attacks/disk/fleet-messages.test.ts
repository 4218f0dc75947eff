import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import pg from 'pg'
import { type FleetMember, SHORT_FENCE, startFleet, type TestFleet } from '../../../support/fleet.ts'
import { createResources } from '../../../support/relay.ts'

const ROLE = 'guest_of_the_database'
const PASSWORD = 'guest-password'

describe('a role that may only connect to the database of a fleet', () => {
  let fleet: TestFleet
  let guest: pg.Client
  let a: FleetMember
  let b: FleetMember

  before(async () => {
    fleet = await startFleet(2, SHORT_FENCE)
    ;[a, b] = fleet.members as [FleetMember, FleetMember]
    const owner = new pg.Client({ connectionString: fleet.databaseUrl })
    await owner.connect()
    await owner.query(`drop role if exists ${ROLE}`)
    await owner.query(`create role ${ROLE} login password '${PASSWORD}'`)
    await owner.end()
    const url = new URL(fleet.databaseUrl)
    url.username = ROLE
    url.password = PASSWORD
    guest = new pg.Client({ connectionString: url.href })
    await guest.connect()
  })
  after(async () => {
    await guest?.end()
    await fleet?.close()
  })

  const notify = (payload: string) => guest.query(`select pg_notify('sluice_fleet', $1)`, [payload])
  const nodes = async () => (await a.server.api('GET', '/api/node/')).body.data

  it('stops no gateway with a message that is not one', async () => {
    for (const payload of ['', 'x', 'null', '[]', '7', '{"call":1}', '{"recall":{}}', '{"returned":null}'])
      await notify(payload)
    // Two changes, so that the gateways have received the messages before.
    await createResources(a.server.api, 'http://127.0.0.1:9').newToken()
    await createResources(b.server.api, 'http://127.0.0.1:9').newToken()
    assert.deepEqual(
      fleet.members.map(({ server }) => server.isRunning()),
      [true, true],
    )
  })

  it('cannot confirm a change for a node that has not applied it', async () => {
    const list = (await nodes()) as { id: string; address: string }[]
    const port = new URL(b.server.url).port
    const { id } = list.find(({ address }) => address.endsWith(`:${port}`)) ?? { id: '' }
    b.proxy.set('refuse')
    await notify(JSON.stringify({ node: id, applied: 1_000_000_000 }))
    const reply = await a.server.api('POST', '/api/token/', { name: 'new', remain_quota: 1 })
    assert.equal(reply.status, 200, reply.text)
    const { state } = (await nodes()).find((node: { id: string }) => node.id === id)
    assert.equal(state, 'fenced')
    b.proxy.set('pass')
  })
})
