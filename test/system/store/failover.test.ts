import assert from 'node:assert/strict'
import { cpSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { type Simulator, startSimulator } from '../../../simulator/server.ts'
import { readConfig } from '../../../src/app/config.ts'
import { parsePostgresUrl } from '../../../src/store/engine/postgres-url.ts'
import { openStore } from '../../../src/store/engine/store.ts'
import { freePort } from '../../support/free-port.ts'
import { stopOwnPostgres } from '../../support/postgres.ts'
import { startPostgresPair } from '../../support/postgres-pair.ts'
import {
  lookInto,
  newDirectory,
  type Server,
  startServer,
  until,
  verifyThroughSocket,
} from '../../support/process.ts'
import { createResources } from '../../support/relay.ts'

after(stopOwnPostgres)

describe('DATABASE_URL with several hosts', () => {
  it('is parsed as by libpq', () => {
    assert.deepEqual(
      parsePostgresUrl('postgres://u:p%40w@a:1,b,[::1]:3/d?target_session_attrs=read-write&sslmode=disable'),
      {
        hosts: [
          'postgres://u:p%40w@a:1/d?sslmode=disable',
          'postgres://u:p%40w@b/d?sslmode=disable',
          'postgres://u:p%40w@[::1]:3/d?sslmode=disable',
        ],
        kind: 'writable',
      },
    )
    assert.deepEqual(parsePostgresUrl('postgresql://h/d'), { hosts: ['postgresql://h/d'], kind: undefined })
  })

  it('is refused with one sentence if it names standbys, an unknown attribute or a bad port, without the password', () => {
    for (const url of [
      'postgres://u:hunter2@a,b/d?target_session_attrs=standby',
      'postgres://u:hunter2@a,b/d?target_session_attrs=any',
      'postgres://u:hunter2@a/d?target_session_attrs=fastest',
      'postgres://u:hunter2@a:x,b/d',
    ])
      assert.throws(
        () => readConfig({ DATABASE_URL: url }),
        (error: Error) => {
          assert.match(error.message, /^DATABASE_URL [^\n]+$/)
          assert.ok(!error.message.includes('hunter2'))
          return true
        },
      )
  })
})

describe('a primary with an asynchronous standby', () => {
  let pair: Awaited<ReturnType<typeof startPostgresPair>>
  let simulator: Simulator
  before(async () => {
    pair = await startPostgresPair('sluice')
    simulator = await startSimulator()
  })
  after(async () => {
    await simulator.close()
    await pair.close()
  })

  it('is used by its address, in any order, and after a failover that loses transactions the ledger is healed', async () => {
    const { primaryUrl, standbyUrl } = pair
    const reversed = pair.url.replace(/@([^,]+),([^/]+)/, '@$2,$1')
    const dead = pair.url.replace('@', `@127.0.0.1:${await freePort()},`)
    for (const url of [reversed, dead, primaryUrl]) {
      const store = openStore({ engine: 'postgres', url, maxConnections: 2 })
      assert.equal(await store.isInitialised(), false)
      await store.close()
    }
    const nowhere = openStore({
      engine: 'postgres',
      url: `${standbyUrl}?target_session_attrs=read-write`,
      maxConnections: 1,
    })
    await assert.rejects(nowhere.isInitialised(), /no host of the URL accepts writes/)
    await nowhere.close()

    const ground = { dataDir: join(newDirectory(), 'data'), databaseUrl: pair.url }
    const nodes: Server[] = [await startServer(ground)]
    const first = nodes[0] as Server
    const { serve, newToken } = createResources(first.api, simulator.url)
    const { model } = await serve('sim-words-3')
    const { key, id } = await newToken({ remain_quota: 400_000_000 })
    const startOther = async (databaseUrl: string) => {
      const place = { dataDir: join(newDirectory(), 'data'), databaseUrl }
      mkdirSync(place.dataDir, { recursive: true, mode: 0o700 })
      cpSync(join(ground.dataDir, 'secret'), join(place.dataDir, 'secret'))
      nodes.push(await startServer(place))
      return place
    }
    const other = await startOther(reversed)
    const body = { model, max_tokens: 20, messages: [{ role: 'user', content: 'Hi' }] }

    let succeeded = 0
    let isStopped = false
    const clients = nodes.flatMap(node =>
      [1, 2].map(async () => {
        while (!isStopped) {
          const { status, text } = await node.api('POST', '/v1/chat/completions', body, { token: key })
          assert.ok(status === 200 || status === 503, text)
          if (status === 200) succeeded++
        }
      }),
    )
    const more = (count: number) => {
      const target = succeeded + count
      return until('more requests', () => (succeeded >= target ? true : undefined))
    }
    /** The chains of both nodes. */
    const headsOn = (databaseUrl: string) =>
      lookInto({ dataDir: '', databaseUrl }, ({ db }) =>
        db.selectFrom('chains').select(['name', 'seq']).where('name', 'like', 'node:%').execute(),
      )
    const rowsOn = (databaseUrl: string) =>
      lookInto({ dataDir: '', databaseUrl }, async ({ db }) => {
        const { rows } = await db
          .selectFrom('logs')
          .select(({ fn }) => fn.countAll<number>().as('rows'))
          .where('token_id', '=', id)
          .where('type', '=', 2)
          .executeTakeFirstOrThrow()
        return rows
      })

    await more(20)
    await pair.cutReplication()
    const replicated = await headsOn(standbyUrl)
    await until('requests of both nodes that the standby lacks', async () => {
      const heads = await headsOn(primaryUrl)
      return heads.every(({ name, seq }) => seq > (replicated.find(head => head.name === name)?.seq ?? 0) + 5)
        ? true
        : undefined
    })
    await startOther(pair.url)
    const [, , late] = nodes as [Server, Server, Server]
    await pair.killPrimary()
    await more(2)
    await pair.promote()
    const losses = () =>
      nodes.slice(0, 2).map(node => node.lines().find(({ msg }) => /has lost transactions/.test(String(msg))))
    await until('both nodes to notice the loss', () => (losses().every(Boolean) ? true : undefined))
    await more(40)
    isStopped = true
    await Promise.all(clients)
    // The standby does not know the node that registered in the lost moment.
    await until('the third node to register again', () =>
      late.lines().find(({ msg }) => /lost the registration of this node/.test(String(msg))),
    )
    await until('the third node to accept requests', async () => {
      const { status } = await late.api('POST', '/v1/chat/completions', body, { token: key })
      if (status !== 200) return undefined
      succeeded += 1
      return true
    })
    // On a busy machine, the heartbeat of a node may be late for a moment.
    await until('three nodes to be up', async () => {
      const { data } = (await first.api('GET', '/api/node/')).body
      assert.equal(data.length, 3)
      return data.every(({ state }: { state: string }) => state === 'up') ? true : undefined
    })

    for (const loss of losses()) assert.ok(Number(loss?.settlements) > 0, JSON.stringify(loss))
    await until('a row for each request', async () =>
      (await rowsOn(standbyUrl)) === succeeded ? true : undefined,
    )
    // The third node has anchored a record that is lost, so verification fails there.
    for (const place of [ground, other]) {
      const report = await verifyThroughSocket(place)
      assert.ok(report.ok, report.lines.join('\n'))
    }
    for (const node of nodes) assert.equal((await node.stop()).code, 0)
    const accountsWithHolds = await lookInto({ dataDir: '', databaseUrl: standbyUrl }, ({ db }) =>
      db.selectFrom('accounts').selectAll().where('held', '<>', 0).execute(),
    )
    assert.deepEqual(accountsWithHolds, [])
  })
})
