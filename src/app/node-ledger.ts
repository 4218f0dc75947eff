import type { Logger } from 'pino'
import { usdText } from '../domain/money.ts'
import { createAnchors } from '../ledger/anchors.ts'
import { openLedger } from '../ledger/ledger.ts'
import { recover } from '../ledger/recovery.ts'
import type { HealOutcome } from '../ledger/rollback.ts'
import { createBooks } from '../store/books/books.ts'
import { chainKeyOf } from '../store/books/chain-key.ts'
import { listChains } from '../store/books/chains.ts'
import type { Store } from '../store/engine/store.ts'
import { leaseStates, leaveFleet } from '../store/records/nodes.ts'
import { dropUnsent, endLeases } from '../store/records/videos.ts'
import type { Peers } from '../workers/peers.ts'
import { createAnchorSink } from './anchor-sink.ts'
import type { Config } from './config.ts'
import { createFailureLog } from './failure-log.ts'
import type { Fleet } from './fleet.ts'
import { createIdleReturns } from './idle-returns.ts'
import { openNode } from './nodes.ts'

/**
 * A batch has a cost of its own. Lists may be one second old (docs/reference/money.md: Balances), so 400 ms leave time for the batch that
 * is running and for those of other workers. What waits is lost to PostgreSQL with the disk of this machine (docs/operating/scale.md: Proof).
 */
const APPLY_EVERY_MS = { sqlite: 400, postgres: 150 } as const

type Deps = {
  readonly config: Config
  readonly log: Logger
  readonly store: Store
  readonly peers: Peers
  /** This node among the other machines. It joins after the ledger is open. */
  fleet(): Pick<Fleet, 'hasOthers' | 'callOthers' | 'exclusively'>
  /** Called when the store has lost transactions, so that cached rows may be newer than the store. */
  onRollback(): void
}

/** Reports what a failover of PostgreSQL has lost (docs/operating/postgresql.md: Failover). */
function logFailover(log: Logger, { isBehind, settlements, uncoveredNanos }: HealOutcome): void {
  if (!isBehind) {
    log.info('PostgreSQL failed over. The ledger of this node has lost nothing.')
    return
  }
  log.error(
    { settlements, uncovered_usd: usdText(uncoveredNanos) },
    'The database has lost transactions that it had acknowledged. Settled requests of this node are applied again from its journal. Changes through the management API may be lost: run "sluice verify".',
  )
}

/** Opens the ledger of this worker. First it recovers the orphaned journals: those of nodes that have no worker any more. */
export async function openNodeLedger({ config, log, store, peers, fleet, onRollback }: Deps) {
  const { db, batchDb, engine } = store
  const books = createBooks(db, engine, batchDb)
  const { nodeId, orphans, slot } = peers.assignment
  const problems = {
    onReserveReleased: (error: Error) =>
      log.error(
        { err: error },
        'The disk is full: running requests are settled from the journal reserve, new ones are refused until there is space.',
      ),
    onSyncFailure: (error: Error) =>
      log.error(
        { err: error },
        'The disk does not confirm the journal: a power failure may lose records that were settled.',
      ),
  }
  for (const orphan of orphans) {
    const { journal, release } = openNode(config, orphan, problems)
    await recover({
      nodeId: orphan,
      journal,
      books,
      nowMs: Date.now,
      onMissingRecords: what =>
        log.error({ node: orphan, what }, 'A journal lacks records that are in the ledger.'),
      onEpochFailure: error =>
        log.error(
          { err: error, node: orphan },
          'The start of a node could not be recorded beside its journal.',
        ),
    })
    journal.close()
    release()
    await dropUnsent(db, orphan)
    await endLeases(db, orphan)
    await leaveFleet(db, orphan)
  }
  const returnIdleOnOtherMachines = createIdleReturns({
    callOthers: (name, accounts, withinMs) => fleet().callOthers(name, accounts, withinMs),
    leaseStates: (nodeIds, accounts) => leaseStates(db, nodeIds, accounts),
    monotonicMs: () => performance.now(),
  })
  const node = openNode(config, nodeId, problems)
  const ledger = await openLedger({
    nodeId,
    journal: node.journal,
    books,
    otherNodes: {
      isEmpty: async () => peers.isAlone && !(await fleet().hasOthers()),
      async returnIdle(accounts) {
        const [idleReturn] = await Promise.all([
          returnIdleOnOtherMachines(accounts),
          peers.broadcast({ name: 'returnIdle', input: accounts }),
        ])
        return idleReturn
      },
      exclusively: (userId, work) =>
        peers.exclusively(`user:${userId}`, () => fleet().exclusively(`user:${userId}`, work)),
    },
    outageMs: store.engine === 'postgres' ? config.outageS * 1_000 : 0,
    applyEveryMs: APPLY_EVERY_MS[store.engine],
    nowMs: Date.now,
    onFailure: createFailureLog(log, Date.now),
    onFailover: store.onFailover,
    onHealed(outcome) {
      logFailover(log, outcome)
      if (outcome.isBehind) onRollback()
    },
  })
  await dropUnsent(db, nodeId)
  await endLeases(db, nodeId)
  const anchors = createAnchors({
    nodeId,
    key: chainKeyOf(db),
    // Only the first worker of a machine writes to the sink. Every worker writes anchors to its own journal.
    sink: slot === 0 ? createAnchorSink(config, log) : undefined,
    heads: async () => (await listChains(db)).map(({ name, seq, hash }) => ({ chain: name, seq, hash })),
    journal: (anchor, isFiled) => void node.journal.append({ kind: 'anchor', anchor, isFiled }),
    now: () => Math.floor(Date.now() / 1000),
    onFailure: error =>
      log.error({ err: error }, 'The chain heads could not be anchored. Retrying in a minute.'),
  })
  await anchors.start()
  return {
    ledger,
    async close(): Promise<void> {
      // The barrier first, so that the last anchor includes the last entries. If it fails, `ledger.close` reports the error.
      await ledger.barrier().then(anchors.close, anchors.close)
      await ledger.close()
      node.release()
    },
  }
}
