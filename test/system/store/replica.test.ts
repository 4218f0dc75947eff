import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { startSimulator } from '../../../simulator/server.ts'
import { readConfig } from '../../../src/app/config.ts'
import { stopOwnPostgres } from '../../support/postgres.ts'
import { startPostgresPair } from '../../support/postgres-pair.ts'
import { lookInto, newDirectory, startServer, until } from '../../support/process.ts'
import { createResources } from '../../support/relay.ts'

after(stopOwnPostgres)

const NOW = Math.floor(Date.now() / 900_000) * 900
const RANGE = `from=${NOW - 3600}&to=${NOW + 3600}`
const REPORTS = [
  '/api/log/totals',
  '/api/log/times',
  '/api/log/facets?by=model',
  '/api/log/export?format=csv',
  `/api/usage/top?by=model&${RANGE}`,
  `/api/usage/times?${RANGE}`,
]
const OTHERS = ['/api/log/', '/api/user/self', '/api/status']
const LAG = 'x-sluice-replica-lag'

describe('DATABASE_REPLICA_URL', () => {
  let pair: Awaited<ReturnType<typeof startPostgresPair>>
  before(async () => {
    pair = await startPostgresPair('sluice')
  })
  after(() => pair.close())

  it('needs DATABASE_URL', () => {
    assert.throws(
      () => readConfig({ DATABASE_REPLICA_URL: 'postgres://h/d' }),
      /^SettingError: DATABASE_REPLICA_URL needs/,
    )
  })

  it('serves reports and exports from the standby with their age, and from the primary without a standby', async test => {
    const simulator = await startSimulator()
    test.after(simulator.close)
    const ground = {
      dataDir: join(newDirectory(), 'data'),
      databaseUrl: pair.primaryUrl,
      env: { DATABASE_REPLICA_URL: pair.standbyUrl },
    }
    const server = await startServer(ground)
    const { serve, newToken } = createResources(server.api, simulator.url)
    const { model } = await serve('sim-plain')
    const { key } = await newToken()
    const ask = async () => {
      const body = { model, messages: [{ role: 'user', content: 'Hi' }] }
      const { status, text } = await server.api('POST', '/v1/chat/completions', body, { token: key })
      assert.equal(status, 200, text)
    }
    const totals = () => server.api('GET', '/api/log/totals')
    const untilTotal = (count: number) =>
      until('the totals', async () => ((await totals()).body.data.count === count ? true : undefined))
    await ask()
    await ask()
    await untilTotal(2)
    for (const path of REPORTS) {
      const { status, headers, text } = await server.api('GET', path)
      assert.equal(status, 200, `${path}: ${text}`)
      assert.match(headers.get(LAG) ?? '', /^\d+$/, path)
    }
    for (const path of OTHERS) assert.equal((await server.api('GET', path)).headers.get(LAG), null, path)
    assert.equal((await server.api('GET', '/api/log/totals?type=nonsense')).status, 400)

    await pair.cutReplication()
    await ask()
    await until('the row on the primary', () =>
      lookInto({ dataDir: '', databaseUrl: pair.primaryUrl }, async ({ db }) =>
        (await db.selectFrom('logs').select('id').where('type', '=', 2).execute()).length === 3
          ? true
          : undefined,
      ),
    )
    assert.equal((await totals()).body.data.count, 2)
    await until('the age to grow', async () =>
      Number((await totals()).headers.get(LAG)) >= 3 ? true : undefined,
    )
    await pair.stopStandby()
    const { body, headers } = await totals()
    assert.deepEqual([body.data.count, headers.get(LAG)], [3, null])
    assert.ok(server.lines().some(({ msg }) => /standby cannot be used/.test(String(msg))))
    assert.equal((await server.stop()).code, 0)
  })
})
