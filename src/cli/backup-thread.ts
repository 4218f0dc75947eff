import { sumOf } from '../ledger/segment-file.ts'
import { inspectSegment, readSegments, segmentsOf } from '../ledger/segments.ts'
import { openStore, type StoreOptions } from '../store/engine/store.ts'
import { copyFromPostgres } from '../store/engine/table-copy.ts'
import { BACKUP_SCHEMA, FORMAT, nodeDirectories, openFile } from './backup-file.ts'
import { work } from './thread-work.ts'

/** Runs in a thread: copying a large store takes long. */
export type BackupJob = {
  readonly dataDir: string
  readonly store: StoreOptions
  /** The file to write; it must not exist. */
  readonly path: string
  readonly version: string
  readonly time: number
}
export type Copied = { readonly nodes: number; readonly records: number }

type File = ReturnType<typeof openFile>
type Position = { readonly applied_lsn: number; readonly oldest_open_lsn: number }

/** The last durable record of every node. Every request that was answered by now is included. */
function endsOf(dataDir: string): Map<string, number> {
  const ends = nodeDirectories(dataDir).map(({ node, dir }) => {
    const newest = segmentsOf(dir).at(-1)
    if (!newest) return [node, 0] as const
    const last = inspectSegment(newest.path, reader => (reader.hasRecords ? reader.lastLsn() : undefined))
    return [node, last ?? newest.first - 1] as const
  })
  return new Map(ends)
}

function copySqlite(from: string, to: string): void {
  const source = openFile(from, { readOnly: true })
  try {
    // One read transaction: a consistent snapshot, while other connections continue to write.
    source.prepare('VACUUM INTO ?').run(to)
  } finally {
    source.close()
  }
}

async function copyPostgres(url: string, to: string): Promise<void> {
  const empty = openStore({ engine: 'sqlite', path: to, fullSync: false })
  await empty.migrate()
  await empty.close()
  const source = openStore({ engine: 'postgres', url, maxConnections: 1 })
  const file = openFile(to)
  try {
    file.exec('PRAGMA journal_mode = DELETE')
    await copyFromPostgres(source.db, file)
  } finally {
    file.close()
    await source.close()
  }
}

/**
 * Copies the journal records that are not in the copied store yet, up to the end of the journal before the copy, or up to
 * the position of the copied store. Every record is older than the copy, so the users, grants and leases it refers to are in
 * it: the backup is what a killed process would have left at that moment.
 */
function copyJournals(file: File, dataDir: string, ends: ReadonlyMap<string, number>): Copied {
  const position = file.prepare('SELECT applied_lsn, oldest_open_lsn FROM nodes WHERE id = ?')
  const addNode = file.prepare('INSERT INTO backup_nodes (node, first) VALUES (?, ?)')
  const addRecord = file.prepare('INSERT INTO backup_records (node, lsn, body, sum) VALUES (?, ?, ?, ?)')
  let records = 0
  file.exec('BEGIN')
  for (const { node, dir } of nodeDirectories(dataDir)) {
    const row = position.get(node) as Position | undefined
    const applied = row?.applied_lsn ?? 0
    const after = Math.min(applied, (row?.oldest_open_lsn ?? 1) - 1)
    const end = Math.max(applied, ends.get(node) ?? 0)
    addNode.run(node, after + 1)
    // A gap is copied as it is: the start after a restore handles it like any other gap.
    const reading = { segments: segmentsOf(dir), after, onGap: () => {} }
    for (const { lsn, body } of readSegments(reading)) {
      if (lsn > end) break
      addRecord.run(node, lsn, body, sumOf(lsn, body))
      records += 1
    }
  }
  file.exec('COMMIT')
  return { nodes: nodeDirectories(dataDir).length, records }
}

async function makeBackup({ dataDir, store, path, version, time }: BackupJob): Promise<Copied> {
  const ends = endsOf(dataDir)
  if (store.engine === 'sqlite') copySqlite(store.path, path)
  else await copyPostgres(store.url, path)
  const file = openFile(path)
  try {
    file.exec(BACKUP_SCHEMA)
    const insertInfo = file.prepare('INSERT INTO backup_info (key, value) VALUES (?, ?)')
    for (const [key, value] of Object.entries({ format: FORMAT, version, time, engine: store.engine }))
      insertInfo.run(key, String(value))
    return copyJournals(file, dataDir, ends)
  } finally {
    file.close()
  }
}

await work(makeBackup)
