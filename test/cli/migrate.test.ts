import assert from 'node:assert/strict'
import { existsSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import pg from 'pg'
import { startSimulator } from '../../simulator/server.ts'
import { openDatabase } from '../../src/host/sqlite-open.ts'
import { openStore } from '../../src/store/engine/store.ts'
import { copyStore } from '../../src/store/engine/store-move.ts'
import { runHere } from '../support/command.ts'
import { ROOT_PASSWORD } from '../support/gateway.ts'
import { createDatabase, stopOwnPostgres } from '../support/postgres.ts'
import {
  lookInto,
  newGround,
  run,
  type Server,
  settingsOf,
  startGatewayOn,
  startServer,
  until,
} from '../support/process.ts'
import { createResources } from '../support/relay.ts'
import { failedStart } from '../support/start.ts'

after(stopOwnPostgres)

async function query(url: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  await client.query(statement)
  await client.end()
}

/** Uses most of what a gateway stores. */
async function addContent(server: Server, upstream: string) {
  const { must, serve, newToken } = createResources(server.api, upstream)
  const { model } = await serve('sim-words-4')
  const { model: failing } = await serve('sim-status-500')
  const user = await must(
    server.api('POST', '/api/user/', { username: 'zoë', password: 'a long password', quota: 5_000_000 }),
  )
  await must(server.api('POST', '/api/user/manage', { id: user.id, action: 'add_quota', value: 777 }))
  await must(server.api('POST', '/api/alias/', { name: 'alias', target: model }))
  await must(server.api('PUT', '/api/setting/', { attempts: 3 }))
  const token = await newToken({ log_bodies: 'all', limits: { rpm: 1_000 } })
  const deleted = await newToken({ name: 'deleted' })
  await must(server.api('DELETE', `/api/token/${deleted.id}`))
  for (let turn = 0; turn < 12; turn++) {
    const body = {
      model: turn % 4 === 3 ? failing : turn % 2 === 0 ? model : 'alias',
      stream: turn % 3 === 0,
      messages: [{ role: 'user', content: `naïve ✓ ${turn}` }],
    }
    await server.api('POST', '/v1/chat/completions', body, {
      token: token.key,
      headers: { 'x-sluice-tags': `turn=${turn}` },
    })
  }
  await fetch(`${server.url}/api/user/login`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ username: 'root', password: ROOT_PASSWORD }),
  })
  return { model, token, lastTokenId: deleted.id, userId: user.id as number }
}

const stateOf = async ({ api }: Pick<Server, 'api'>, tokenId: number) => {
  const fields = async (path: string) => (await api('GET', path)).body.data
  const { accessed_time: _time, ...token } = await fields(`/api/token/${tokenId}`)
  return {
    token,
    users: (await fields('/api/user/?page_size=100')).items.map(
      ({ username, quota, used_quota, request_count }: Record<string, unknown>) => ({
        username,
        quota,
        used_quota,
        request_count,
      }),
    ),
    logs: (await fields('/api/log/?page_size=100')).items,
    channels: (await fields('/api/channel/?page_size=100')).items,
  }
}

describe('sluice migrate --to postgres://…', () => {
  it('moves a gateway that was killed, continues after an interruption, and both ledgers verify', async test => {
    const simulator = await startSimulator()
    const database = await createDatabase()
    test.after(async () => {
      await simulator.close()
      await database.drop()
    })
    const ground = await newGround('sqlite')
    const server = await startServer(ground)
    const fixture = await addContent(server, simulator.url)
    await until('the rows', async () =>
      (await server.api('GET', '/api/log/')).body.data.total >= 12 ? true : undefined,
    )
    await until('the bodies', () =>
      lookInto(ground, async ({ db }) => {
        const pages = await db.selectFrom('body_pages').select('id').execute()
        const places = await db.selectFrom('body_places').select('request_id').execute()
        return pages.length + places.length >= 12 ? true : undefined
      }),
    )
    const before = await stateOf(server, fixture.token.id)
    const env = settingsOf(ground)
    const args = ['migrate', '--to', database.url]
    const refused = await runHere(args, { env })
    assert.notEqual(refused.code, 0)
    assert.match(refused.stderr, /^sluice: [^\n]*in use|another|pid[^\n]*\n$/)
    await server.kill()

    // An interrupted copy, as a killed command leaves it.
    const target = openStore({ engine: 'postgres', url: database.url, maxConnections: 2 })
    await target.migrate()
    const file = openDatabase(join(ground.dataDir, 'sluice.db'), { readOnly: true, timeoutMs: 1000 })
    let tables = 0
    await assert.rejects(
      copyStore(file, target.db, () => {
        if (++tables === 5) throw new Error('interrupted')
      }),
      /interrupted/,
    )
    file.close()
    await target.close()
    const onTarget = { ...ground, databaseUrl: database.url }
    const early = await runHere(['verify'], { env: settingsOf(onTarget) })
    assert.equal(early.code, 78)
    assert.match(early.stderr, /^sluice: DATABASE_URL contains an incomplete copy[^\n]*\n$/)

    const { code, stdout, stderr } = await run(args, { env })
    assert.equal(code, 0, stdout + stderr)
    assert.match(stdout, /the ledger in SQLite verifies[\s\S]*an interrupted copy was continued/)
    assert.match(stdout, /every table has the same rows in both databases\nthe ledger in PostgreSQL verifies/)
    assert.ok(!existsSync(join(ground.dataDir, 'sluice.db')))

    // A command that is killed before it renames the file is completed by the next one.
    renameSync(join(ground.dataDir, 'sluice.db.moved'), join(ground.dataDir, 'sluice.db'))
    const completed = await runHere(args, { env })
    assert.equal(completed.code, 0, completed.stderr)
    assert.match(completed.stdout, /^an earlier run has moved everything\nmoved; [^\n]*\n$/)
    assert.ok(!existsSync(join(ground.dataDir, 'sluice.db')))

    const moved = await startGatewayOn(onTarget)
    assert.deepEqual(await stateOf(moved, fixture.token.id), before)
    const body = { model: fixture.model, messages: [{ role: 'user', content: 'Hi' }] }
    const reply = await moved.api('POST', '/v1/chat/completions', body, { token: fixture.token.key })
    assert.equal(reply.status, 200, reply.text)
    const { must, newToken } = createResources(moved.api, simulator.url)
    assert.ok((await newToken()).id > fixture.lastTokenId, 'ids are not reused')
    await must(moved.api('POST', '/api/user/manage', { id: fixture.userId, action: 'add_quota', value: 1 }))
    const report = await moved.operations.verify({})
    assert.ok(report.ok, report.lines.join('\n'))
    await moved.close()

    // Without DATABASE_URL, a start must not create an empty gateway beside the moved data.
    for (const fail of [
      () => runHere(args, { env }),
      () => runHere(['verify'], { env }),
      () => failedStart(ground),
    ]) {
      const again = await fail()
      assert.equal(again.code, 78)
      assert.match(again.stderr, /^sluice: DATABASE_URL must be set: [^\n]*sluice\.db\.moved[^\n]*\n$/)
    }
    assert.ok(!existsSync(join(ground.dataDir, 'sluice.db')))
  })

  it('refuses a database that contains a gateway, DATABASE_URL for the source, and a missing or wrong URL', async () => {
    const source = await newGround('sqlite')
    const used = await newGround('postgres')
    const env = settingsOf(source)
    const intoUsed = await runHere(['migrate', '--to', used.databaseUrl ?? ''], { env })
    assert.equal(intoUsed.code, 1)
    assert.match(intoUsed.stderr, /^sluice: [^\n]*already contains a gateway[^\n]*\n$/)
    const fromPostgres = await runHere(['migrate', '--to', used.databaseUrl ?? ''], { env: settingsOf(used) })
    assert.equal(fromPostgres.code, 78)
    assert.equal((await runHere(['migrate'], { env })).code, 64)
    const wrong = await runHere(['migrate', '--to', 'mysql://root:hunter2hunter2@h/d'], { env })
    assert.equal(wrong.code, 78)
    assert.match(wrong.stderr, /^sluice: --to must be a postgres:\/\/… URL\n$/)
    assert.ok(!wrong.stderr.includes('hunter2'))
    assert.ok(existsSync(join(source.dataDir, 'sluice.db')))
  })

  it('says in one sentence why a database cannot be used', async test => {
    const database = await createDatabase()
    const source = await newGround('sqlite')
    const env = settingsOf(source)
    const to = async (change: (url: URL) => void) => {
      const url = new URL(database.url)
      change(url)
      return { url: url.href, ...(await runHere(['migrate', '--to', url.href], { env })) }
    }
    const absent = await to(url => (url.pathname = '/absent'))
    assert.equal(absent.code, 1)
    assert.equal(
      absent.stderr,
      'sluice: the database of --to cannot be used: database "absent" does not exist\n',
    )
    const refused = await to(url => (url.port = '1'))
    assert.match(refused.stderr, /^sluice: the database of --to cannot be used: [^\n]*ECONNREFUSED[^\n]*\n$/)

    // From version 15 on, only the owner of a database may create tables in it.
    const role = `reader_${process.pid}`
    await query(database.url, `create role ${role} login password 'a-password-of-tests'`)
    test.after(async () => {
      await query(database.url, `drop role ${role}`)
      await database.drop()
    })
    const asReader = (url: URL) => {
      url.username = role
      url.password = 'a-password-of-tests'
    }
    const foreign = await to(asReader)
    assert.equal(foreign.code, 1)
    assert.match(
      foreign.stderr,
      /^sluice: the database of --to [^\n]*permission denied[^\n]*must own the database[^\n]*\n$/,
    )
    const start = await failedStart({ ...source, databaseUrl: foreign.url })
    assert.equal(start.code, 78)
    assert.match(start.stderr, /^sluice: DATABASE_URL cannot be used: permission denied[^\n]*\n$/)
  })
})
