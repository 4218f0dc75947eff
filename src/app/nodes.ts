import { randomUUID } from 'node:crypto'
import { mkdirSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { lockFile } from '../host/lock.ts'
import { createJournal, type Journal, type JournalDeps } from '../ledger/journal.ts'
import type { Assignment } from '../workers/messages.ts'

/** How long to wait for the lock of a node: a worker whose supervisor was killed needs a moment to exit. */
const TAKE_OVER_MS = 10_000

const nodesIn = (dataDir: string) => join(dataDir, 'nodes')

/** Assigns each worker a node: a journal directory with a random name. The next start reuses existing nodes. */
export function assignNodes(dataDir: string, workers: number): readonly Assignment[] {
  mkdirSync(nodesIn(dataDir), { recursive: true, mode: 0o700 })
  const existing = readdirSync(nodesIn(dataDir)).sort()
  const machine = randomUUID()
  return Array.from({ length: workers }, (_each, slot) => ({
    slot,
    machine,
    nodeId: existing[slot] ?? randomUUID().slice(0, 13),
    orphans: slot === 0 ? existing.slice(workers) : [],
  }))
}

/** Opens a node's journal for this process alone. */
export function openNode(
  { dataDir, durability }: { readonly dataDir: string; readonly durability: string },
  nodeId: string,
  problems: Pick<JournalDeps, 'onReserveReleased' | 'onSyncFailure'>,
): { readonly journal: Journal; release(): void } {
  const dir = join(nodesIn(dataDir), nodeId)
  mkdirSync(dir, { recursive: true, mode: 0o700 })
  const lock = lockFile(join(dir, 'lock'), TAKE_OVER_MS)
  const journal = createJournal({
    dir,
    fullSync: durability === 'full',
    nowMs: Date.now,
    ...problems,
  })
  return { journal, release: lock.release }
}
