import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import type { Rejection, RejectionBatch } from '../../src/domain/rejection.ts'
import { createRejections } from '../../src/relay/rejections.ts'
import { openStore, type Store } from '../../src/store/engine/store.ts'
import { writeRejections } from '../../src/store/usage/rejections.ts'
import { ENGINES, type EngineName } from '../support/gateway.ts'
import { createDatabase } from '../support/postgres.ts'
import { until } from '../support/process.ts'
import { startProxy } from '../support/proxy.ts'

const NODE = 'node-1'
const TIME_MS = 1_800_000_000_000

const rejection = (requestId: string): Rejection => ({
  timeMs: TIME_MS,
  userId: 7,
  tokenId: 8,
  tokenName: 'app',
  model: '',
  requestId,
  code: 'model_not_found',
  status: 404,
  message: 'No such model.',
  useTimeMs: 1,
  isStream: false,
  address: '127.0.0.1',
})

const closing: (() => Promise<void> | void)[] = []
after(async () => {
  for (const close of closing.reverse()) await close()
})

async function openEmpty(
  engine: EngineName,
): Promise<{ store: Store; proxy?: Awaited<ReturnType<typeof startProxy>> }> {
  if (engine === 'sqlite') {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-rejections-'))
    const store = openStore({ engine, path: join(folder, 'store.db'), fullSync: false })
    closing.push(() => rmSync(folder, { recursive: true, force: true }), store.close)
    await store.migrate()
    return { store }
  }
  const database = await createDatabase()
  const proxy = await startProxy(new URL(database.url))
  const url = new URL(database.url)
  url.port = String(proxy.port)
  const store = openStore({ engine, url: url.href })
  closing.push(database.drop, proxy.close, store.close)
  await store.migrate()
  return { store, proxy }
}

/** The requests of the token, by its rows and by its sums, and those of unknown callers. */
async function countsOf({ db }: Store) {
  const logs = await db.selectFrom('logs').select(['type', 'requests', 'request_id']).execute()
  const sumOf = (rows: readonly { requests: number }[]) =>
    rows.reduce((sum, { requests }) => sum + Number(requests), 0)
  return {
    rows: logs.length,
    requests: sumOf(logs.filter(({ type }) => type === 5)),
    unknown: sumOf(logs.filter(({ type }) => type === 4)),
    sums: sumOf(await db.selectFrom('rollups').select('requests').execute()),
  }
}

for (const engine of ENGINES)
  describe(`a batch of rejected requests on ${engine} (docs/reference/errors.md: Rejected requests)`, () => {
    it('is written once, even if it is sent again while the first write is committing', async () => {
      const { store } = await openEmpty(engine)
      const batch: RejectionBatch = {
        id: 'boot 1',
        rows: [rejection('req_1'), rejection('req_2')],
        further: [{ first: rejection('req_3'), requests: 5, rowId: undefined }],
        unknown: [{ timeMs: TIME_MS, code: 'invalid_api_key', requests: 3, rowId: undefined }],
      }
      const [ids, again] = await Promise.all([
        writeRejections(store.db, NODE, batch),
        writeRejections(store.db, NODE, batch),
      ])
      assert.deepEqual([again.further, again.unknown], [ids.further, ids.unknown])
      const expectedCounts = { rows: 4, requests: 7, unknown: 3, sums: 7 }
      assert.deepEqual(await countsOf(store), expectedCounts)
      await writeRejections(store.db, 'node-2', batch)
      assert.equal((await countsOf(store)).requests, 14, 'another node has batches of its own')
    })
  })

describe('rejected requests whose commit is not acknowledged', () => {
  it('are counted once, and those that follow are added to the same row', async () => {
    const { store, proxy } = await openEmpty('postgres')
    const failures: Error[] = []
    const rejections = createRejections({
      boot: 'boot',
      write: batch => writeRejections(store.db, NODE, batch),
      onFailure: error => void failures.push(error),
    })
    const add = (from: number, to: number) => {
      for (let i = from; i < to; i++) rejections.add(rejection(`req_${i}`))
      for (let i = from; i < to; i++) rejections.addUnknown('invalid_api_key', TIME_MS)
    }
    proxy?.set('cut at commit')
    add(0, 100)
    await until('a commit without an acknowledgement', () => failures[0])
    add(100, 150)
    proxy?.set('pass')
    await until('the rows', async () => (await countsOf(store)).requests >= 150 || undefined)
    await rejections.close()
    // 60 rows of single requests, one for the further ones, and one for the unknown callers.
    assert.deepEqual(await countsOf(store), { rows: 62, requests: 150, unknown: 150, sums: 150 })
  })
})
