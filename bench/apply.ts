import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { CHANGES_PER_EPOCH } from '../src/domain/node.ts'
import type { Settled } from '../src/domain/settled.ts'
import { createRequestIds } from '../src/http/request-id.ts'
import { createBooks } from '../src/store/books/books.ts'
import { USAGE } from '../test/support/usage.ts'
import { openLedgerStore } from './ledger-store.ts'
import type { Options } from './options.ts'
import { median, printTable } from './table.ts'

/**
 * What a settled request costs SQLite's thread. Few tokens change the same pages in every request of a batch; with many, nearly every
 * request changes rows and index pages of its own.
 */
const LOADS = [
  { name: '1 token, 1 model', users: 1, tokens: 1, models: 1, channels: 1 },
  { name: '50 tokens, 5 models', users: 10, tokens: 50, models: 5, channels: 4 },
  { name: '3,000 tokens, 40 models', users: 600, tokens: 3_000, models: 40, channels: 60 },
]
const BATCH_SIZES = [200, 2_048]
const REQUESTS = 60_000
/** In a batch before the measured ones, code is compiled and leases are made. */
const WARMING = 10_000
const NODE = 'bench'
const LEASE = 1_000_000_000_000
const COST = 6_000

/** A number below `count`, smaller ones more often: a few tokens and models have most of the traffic. */
function below(count: number): number {
  return Math.floor(Math.random() ** 2 * count)
}

type Load = (typeof LOADS)[number]

const newRequestId = createRequestIds()

function settledRequest({ users, tokens, models, channels }: Load): Settled {
  const timeMs = Date.now()
  const tokenId = 1 + below(tokens)
  const channelId = 1 + below(channels)
  const log = {
    ...USAGE,
    tokenName: `token ${tokenId}`,
    model: `model-${below(models)}`,
    other: {
      source: 'provider',
      frt: 4,
      price: 'shipped',
      priced_as: 'gpt-4o-mini',
      attempts: [{ channel: channelId }],
    },
  }
  return {
    rid: newRequestId(timeMs),
    timeMs,
    userId: 1 + (tokenId % users),
    tokenId,
    channelId,
    cost: COST,
    overrun: 0,
    userLeased: COST,
    tokenLeased: COST,
    doubts: [],
    log,
  }
}

/** The CPU time of this process and its threads per request: each batch is made before. */
async function costUs(load: Load, batchSize: number): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-bench-apply-'))
  const store = await openLedgerStore(folder, load)
  try {
    const books = createBooks(store.db, 'sqlite')
    const { epoch } = await books.openNode(NODE, 0, 1)
    let number = epoch * CHANGES_PER_EPOCH
    for (const [kind, count] of [
      ['user', load.users],
      ['token', load.tokens],
    ] as const)
      for (let ownerId = 1; ownerId <= count; ownerId++)
        await books.lease(NODE, { kind, ownerId }, LEASE, ++number)
    let lsn = 0
    let measured = 0
    let spentUs = 0
    while (measured < REQUESTS) {
      const requests = Array.from({ length: batchSize }, () => settledRequest(load))
      const settled = Buffer.from(JSON.stringify(requests))
      const afterLsn = lsn
      lsn += batchSize
      const before = process.cpuUsage()
      await books.apply(NODE, { settled, afterLsn, lastLsn: lsn, oldestOpenLsn: lsn + 1 })
      const { user, system } = process.cpuUsage(before)
      if (lsn <= WARMING) continue
      spentUs += user + system
      measured += batchSize
    }
    return spentUs / measured
  } finally {
    await store.close()
    rmSync(folder, { recursive: true, force: true })
  }
}

export async function benchApply({ runs }: Options): Promise<void> {
  const rows: string[][] = []
  for (const load of LOADS) {
    const costs = BATCH_SIZES.map((): number[] => [])
    for (let run = 0; run < runs; run++)
      for (const [index, batchSize] of BATCH_SIZES.entries())
        costs[index]?.push(await costUs(load, batchSize))
    rows.push([load.name, ...costs.map(each => median(each).toFixed(1))])
  }
  console.log(`apply: median of ${runs} runs of ${REQUESTS} settled requests, CPU µs per request\n`)
  printTable(['', ...BATCH_SIZES.map(size => `batches of ${size}`)], rows)
}
