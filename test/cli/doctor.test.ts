import assert from 'node:assert/strict'
import { chmodSync, existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { locksFinding } from '../../src/app/doctor/database.ts'
import type { Finding } from '../../src/cli/finding.ts'
import { runHere } from '../support/command.ts'
import { oneEngine } from '../support/engines.ts'
import { type Env, newDirectory, newGround, run, type Server, startServer } from '../support/process.ts'

type Examination = {
  readonly code: number | null
  readonly ok: boolean
  readonly findings: readonly Finding[]
}

async function examine(env: Env): Promise<Examination> {
  const { code, stdout, stderr } = await runHere(['doctor', '--json'], { env })
  assert.equal(stderr, '')
  return { code, ...JSON.parse(stdout) }
}

const of = ({ findings }: Examination, check: string) => findings.filter(finding => finding.check === check)
const levels = (examination: Examination, check: string) => of(examination, check).map(({ level }) => level)
const messages = (examination: Examination, check: string) =>
  of(examination, check)
    .map(({ message }) => message)
    .join('\n')

describe('sluice doctor before the first start', () => {
  it('finds nothing wrong, and creates nothing', async () => {
    const parent = newDirectory()
    const { code, stdout } = await run(['doctor'], {
      env: { SLUICE_DATA: join(parent, 'data'), PORT: '0', SLUICE_MAX_CONNECTIONS: '100' },
    })
    assert.equal(code, 0)
    for (const check of [
      'version',
      'settings',
      'files',
      'disk',
      'descriptors',
      'database',
      'proxy headers',
      'gateway',
    ])
      assert.match(stdout, new RegExp(`^ok +${check} +\\S`, 'm'))
    assert.match(stdout, /^\d+ ok, 0 warnings, 0 failures$/m)
    assert.deepEqual(readdirSync(parent), [])
  })

  it('names every invalid setting, and variables that are none', async () => {
    const report = await examine({
      SLUICE_DATA: newDirectory(),
      PORT: 'http',
      SLUICE_WORKERS: '0',
      SLUICE_WORKER: '4',
    })
    assert.deepEqual([report.code, report.ok], [1, false])
    assert.deepEqual(levels(report, 'settings'), ['failure', 'failure', 'warning'])
    assert.match(
      messages(report, 'settings'),
      /^PORT must [\s\S]*^SLUICE_WORKERS must [\s\S]*^SLUICE_WORKER is not/m,
    )
  })

  it('fails if other users may read the master secret', async () => {
    const dataDir = join(newDirectory(), 'data')
    mkdirSync(dataDir)
    writeFileSync(join(dataDir, 'secret'), 'x'.repeat(40), { mode: 0o644 })
    chmodSync(join(dataDir, 'secret'), 0o644)
    chmodSync(dataDir, 0o755)
    const report = await examine({ SLUICE_DATA: dataDir, PORT: '0' })
    assert.deepEqual(levels(report, 'files'), ['warning', 'failure'])
    assert.match(messages(report, 'files'), /chmod 700[\s\S]*secret: run chmod/)
    chmodSync(dataDir, 0o700)
    assert.deepEqual(levels(await examine({ SLUICE_DATA: dataDir, PORT: '0' }), 'files'), ['ok'])
  })

  it('fails if another program listens on the port, or the database cannot be reached', async () => {
    const other = createServer().listen(0, '127.0.0.1')
    await new Promise(resolve => other.once('listening', resolve))
    const { port } = other.address() as AddressInfo
    const report = await examine({
      SLUICE_DATA: newDirectory(),
      PORT: String(port),
      DATABASE_URL: 'postgres://sluice:hidden-password@127.0.0.1:1/sluice',
    })
    other.close()
    assert.match(messages(report, 'gateway'), /cannot listen on 127\.0\.0\.1:\d+: .*EADDRINUSE/)
    assert.deepEqual(levels(report, 'database'), ['failure'])
    assert.doesNotMatch(JSON.stringify(report), /hidden-password/)
  })

  it('checks who may send forwarding headers', async () => {
    const env = { SLUICE_DATA: newDirectory(), PORT: '0' }
    const headers = async (more: Env) => of(await examine({ ...env, ...more }), 'proxy headers')[0]
    assert.equal((await headers({ HOST: '0.0.0.0' }))?.level, 'warning')
    assert.equal((await headers({ HOST: '0.0.0.0', SLUICE_TRUSTED_PROXIES: '10.0.0.0/8' }))?.level, 'ok')
    assert.equal((await headers({ SLUICE_TRUSTED_PROXIES: '0.0.0.0/0' }))?.level, 'failure')
  })
})

for (const engine of oneEngine('postgres'))
  describe(`sluice doctor beside a running gateway on ${engine}`, () => {
    let server: Server
    let env: Env
    const provider = createServer((_request, response) => response.writeHead(404).end())
    before(async () => {
      const ground = await newGround(engine)
      provider.listen(0, '127.0.0.1')
      server = await startServer(ground)
      env = {
        SLUICE_DATA: ground.dataDir,
        SLUICE_MAX_CONNECTIONS: '100',
        ...(ground.databaseUrl !== undefined && { DATABASE_URL: ground.databaseUrl }),
      }
      const { port } = provider.address() as AddressInfo
      const channel = { name: 'one', type: 8, key: 'k', base_url: `http://127.0.0.1:${port}`, models: ['m'] }
      const reply = await server.api('POST', '/api/channel/', { mode: 'single', channel })
      assert.equal(reply.status, 200)
    })
    after(() => provider.close())

    it('checks database, schema, clock, master secret and providers', async () => {
      const report = await examine(env)
      assert.match(messages(report, 'database'), engine === 'sqlite' ? /^SQLite \d/ : /^PostgreSQL \d/)
      assert.match(messages(report, 'database'), /schema \d{4}-/)
      assert.match(messages(report, 'provider'), /^http:\/\/127\.0\.0\.1:\d+ responds \(status 404\)$/)
      assert.match(messages(report, 'master secret'), /decrypts the database/)
      assert.match(messages(report, 'gateway'), /^runs on /)
      assert.ok(report.ok, JSON.stringify(report.findings))
      assert.equal(report.code, 0)
    })

    if (engine === 'postgres')
      it('warns if max_locks_per_transaction is below what partitions need', async () => {
        // PostgreSQL has 64 by default, and so has the one of the tests.
        const report = await examine(env)
        assert.deepEqual(levels(report, 'database'), ['ok', 'warning'])
        assert.match(messages(report, 'database'), /max_locks_per_transaction of PostgreSQL is 64; set 256 /)
        assert.equal(locksFinding(255)?.level, 'warning')
        assert.equal(locksFinding(256), undefined)
      })

    it('fails with another master secret, and if a provider does not respond', async () => {
      provider.close()
      provider.closeAllConnections()
      const report = await examine({ ...env, SLUICE_SECRET: 'another-secret-0123456789-abcdefghij' })
      assert.equal(report.code, 1)
      assert.deepEqual(levels(report, 'master secret'), ['failure'])
      assert.deepEqual(levels(report, 'provider'), ['failure'])
      assert.ok(existsSync(env.SLUICE_DATA ?? ''))
    })
  })
