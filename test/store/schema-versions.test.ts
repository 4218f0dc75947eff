import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { sql } from 'kysely'
import { Migrator } from 'kysely/migration'
import { startSimulator } from '../../simulator/server.ts'
import { type Db, MIGRATIONS, openStore, SCHEMA_FLOOR, type Store } from '../../src/store/engine/store.ts'
import { ENGINES, type EngineName } from '../support/gateway.ts'
import { createDatabase, stopOwnPostgres } from '../support/postgres.ts'
import {
  lookInto,
  newDirectory,
  newGround,
  startGatewayOn,
  startServer,
  verifyThroughSocket,
} from '../support/process.ts'
import { createResources } from '../support/relay.ts'
import { partitionNames } from '../support/tables.ts'

after(stopOwnPostgres)

type Column = { readonly type: string; readonly isNullable: boolean; readonly hasDefault: boolean }

/** Every column by table and name. */
async function columnsOf(db: Db): Promise<Map<string, Column>> {
  const tables = await db.introspection.getTables()
  return new Map(
    tables.flatMap(({ name, columns }) =>
      columns.map(column => [
        `${name}.${column.name}`,
        {
          type: column.dataType,
          isNullable: column.isNullable,
          hasDefault: column.hasDefaultValue || column.isAutoIncrementing,
        },
      ]),
    ),
  )
}

/** Why a program that knows only the schema before cannot read or write the schema after. */
function breaksOf(before: Map<string, Column>, after: Map<string, Column>): string[] {
  const tables = new Set([...before.keys()].map(name => name.split('.')[0]))
  const breaks: string[] = []
  for (const [name, column] of before) {
    const now = after.get(name)
    if (!now) breaks.push(`${name} is missing`)
    else if (now.type !== column.type) breaks.push(`${name} has another type`)
    else if (column.isNullable && !now.isNullable) breaks.push(`${name} must not be null any more`)
    else if (column.hasDefault && !now.hasDefault) breaks.push(`${name} has no default any more`)
  }
  for (const [name, column] of after)
    if (!before.has(name) && tables.has(name.split('.')[0]) && !column.isNullable && !column.hasDefault)
      breaks.push(`${name} is new, must not be null and has no default`)
  return breaks
}

async function openEmpty(engine: EngineName): Promise<{ store: Store; remove(): Promise<void> }> {
  const database = engine === 'postgres' ? await createDatabase() : undefined
  const store = openStore(
    database
      ? { engine: 'postgres', url: database.url, maxConnections: 2 }
      : { engine: 'sqlite', path: join(newDirectory(), 'sluice.db'), fullSync: false },
  )
  return {
    store,
    async remove() {
      await store.close()
      await database?.drop()
    },
  }
}

for (const engine of ENGINES) {
  describe(`the migrations on ${engine}`, () => {
    it('only add to the schema after its floor, so that older programs can serve it', async () => {
      const { store, remove } = await openEmpty(engine)
      const migrations = Object.fromEntries(
        Object.entries(MIGRATIONS).map(([name, up]) => [name, { up: (db: never) => up(db, engine) }]),
      )
      const migrator = new Migrator({ db: store.db, provider: { getMigrations: async () => migrations } })
      const migrateTo = async (name: string) => {
        const { error } = await migrator.migrateTo(name)
        assert.equal(error, undefined, name)
        return columnsOf(store.db)
      }
      let before = await migrateTo(SCHEMA_FLOOR)
      for (const name of Object.keys(MIGRATIONS).filter(each => each > SCHEMA_FLOOR)) {
        const now = await migrateTo(name)
        assert.deepEqual(breaksOf(before, now), [], name)
        before = now
      }
      await remove()
    })
  })

  describe(`a database on ${engine} to which a newer program has added columns and tables`, () => {
    it('is served by this program', async test => {
      const simulator = await startSimulator()
      test.after(simulator.close)
      const ground = await newGround(engine)
      await (await startGatewayOn(ground)).close()
      await lookInto(ground, async ({ db }) => {
        const partitions = await partitionNames(db)
        for (const { name } of await db.introspection.getTables())
          if (!partitions.has(name))
            await sql`alter table ${sql.table(name)} add column added_later text not null default 'x'`.execute(
              db,
            )
        await sql`create table added_later (id integer primary key)`.execute(db)
        await sql`insert into kysely_migration (name, timestamp) values ('9999-future', '2099')`.execute(db)
      })
      const server = await startServer(ground)
      const { must, serve, newToken } = createResources(server.api, simulator.url)
      const { model } = await serve('sim-plain')
      const { key, id } = await newToken()
      const body = { model, messages: [{ role: 'user', content: 'Hi' }] }
      assert.equal((await server.api('POST', '/v1/chat/completions', body, { token: key })).status, 200)
      await must(server.api('POST', '/api/user/', { username: 'a', password: 'a long password', quota: 9 }))
      for (const path of ['/api/user/', '/api/channel/', '/api/log/', '/api/audit/', `/api/token/${id}`])
        await must(server.api('GET', path))
      const report = await verifyThroughSocket(ground)
      assert.ok(report.ok, JSON.stringify(report))
      assert.equal((await server.stop()).code, 0)
      await (await startGatewayOn(ground)).close()
    })
  })
}
