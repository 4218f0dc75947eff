import { constants, copyFileSync, existsSync, mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { makeDirectory } from '../host/directory.ts'
import { isRestoreInterrupted, RESTORED_PART } from '../host/leftovers.ts'
import { lockDirectory } from '../host/lock.ts'
import { syncPath } from '../host/sync-path.ts'
import { diskFiles } from '../ledger/journal-files.ts'
import { openSegmentFile, sumOf } from '../ledger/segment-file.ts'
import { segmentPath } from '../ledger/segments.ts'
import { readMeta } from '../store/engine/meta.ts'
import { openStore, type Store } from '../store/engine/store.ts'
import { copyToPostgres } from '../store/engine/table-copy.ts'
import { unusableDatabase } from '../store/engine/unusable-database.ts'
import { DROP_BACKUP_SCHEMA, FORMAT, openFile } from './backup-file.ts'
import { CommandError, type Report } from './command.ts'

export type RestoreOptions = {
  readonly file: string
  readonly dataDir: string
  readonly databaseUrl: string | undefined
  /** SLUICE_SECRET is set. */
  readonly isSecretSet: boolean
}

type File = ReturnType<typeof openFile>
type Info = { readonly version: string; readonly time: number; readonly engine: string }

/** Checks the integrity of a backup file and reads the information about it. */
function examine(path: string): Info {
  const unusable = (why: string) => new CommandError(`${path} cannot be restored: ${why}`)
  if (!existsSync(path)) throw unusable('the file does not exist')
  const file = openFile(path, { readOnly: true })
  try {
    const info = new Map(
      file
        .prepare('SELECT key, value FROM backup_info')
        .all()
        .map(({ key, value }) => [String(key), String(value)]),
    )
    if (info.get('format') !== FORMAT)
      throw unusable(
        `it was written by Sluice ${info.get('version')} in a format that this version cannot read`,
      )
    const faults = file.prepare('PRAGMA integrity_check(1)').all() as { integrity_check: string }[]
    if (faults[0]?.integrity_check !== 'ok')
      throw unusable(`the file is damaged (${faults[0]?.integrity_check})`)
    return {
      version: info.get('version') ?? '',
      engine: info.get('engine') ?? '',
      time: Number(info.get('time')),
    }
  } catch (error) {
    if (error instanceof CommandError) throw error
    throw unusable(`the file is not a backup of Sluice, or it is damaged (${(error as Error).message})`)
  } finally {
    file.close()
  }
}

/** Files of a store. SQLite would apply the logs of a deleted store to the restored one. */
const STORE_FILES = ['sluice.db', 'sluice.db-wal', 'sluice.db-journal']

/** The journals of an interrupted restore are replaced. */
function refuseUsed(dataDir: string): void {
  const nodes = join(dataDir, 'nodes')
  const hasNodes = !isRestoreInterrupted(dataDir) && existsSync(nodes) && readdirSync(nodes).length > 0
  const used = STORE_FILES.find(name => existsSync(join(dataDir, name))) ?? (hasNodes ? 'nodes' : undefined)
  if (used !== undefined)
    throw new CommandError(
      `${dataDir} already contains a gateway (${used}); restore into an empty directory (it may contain the secret file)`,
    )
}

/** Writes the journal of every node. The next start applies the records that are not in the restored store yet. */
function writeJournals(file: File, nodesDir: string): { nodes: number; records: number } {
  const nodes = file.prepare('SELECT node, first FROM backup_nodes').all() as {
    node: string
    first: number
  }[]
  const recordsOf = file.prepare('SELECT lsn, body, sum FROM backup_records WHERE node = ? ORDER BY lsn')
  mkdirSync(nodesDir, { recursive: true, mode: 0o700 })
  let records = 0
  for (const { node, first } of nodes) {
    if (!/^[\w-]{1,64}$/.test(node))
      throw new CommandError(`the backup is damaged: "${node}" is not a valid node name`)
    const dir = join(nodesDir, node)
    mkdirSync(dir, { mode: 0o700 })
    const path = segmentPath(dir, first)
    const journal = openSegmentFile(diskFiles.openToWrite(path), path)
    for (const row of recordsOf.iterate(node)) {
      const { lsn, body, sum } = row as { lsn: number; body: string; sum: number }
      if (sum !== sumOf(lsn, body))
        throw new CommandError(
          `the backup is damaged: journal record ${lsn} of node ${node} has a wrong checksum`,
        )
      journal.commit([{ first: lsn, bodies: [body] }])
      records += 1
    }
    journal.sync()
    journal.close()
    syncPath(dir)
  }
  syncPath(nodesDir)
  return { nodes: nodes.length, records }
}

/** `to` may be an empty directory. */
function replaceDirectory(from: string, to: string): void {
  rmSync(to, { recursive: true, force: true })
  renameSync(from, to)
}

/** Opens an empty database; one that has a gateway is refused. */
async function withPostgres(url: string, write: (store: Store) => Promise<void>): Promise<void> {
  const store = openStore({ engine: 'postgres', url, maxConnections: 1 })
  try {
    if ((await store.isInitialised()) && (await readMeta(store.db, 'digest_key')) !== undefined)
      throw new CommandError(
        'the database of DATABASE_URL already contains a gateway; restore into an empty database',
      )
    await write(store)
  } catch (error) {
    const reason = unusableDatabase(error)
    throw reason === undefined ? error : new CommandError(`DATABASE_URL cannot be used: ${reason}`)
  } finally {
    await store.close()
  }
}

const mustBeEmpty = (url: string): Promise<void> => withPostgres(url, async () => {})

const fillPostgres = (file: File, url: string): Promise<void> =>
  withPostgres(url, async store => {
    await store.migrate()
    await store.db.transaction().execute(trx => copyToPostgres(file, trx))
  })

/** Migrates a backup of an older version to the current schema; one of a newer version is refused. */
async function migrateBackup(path: string): Promise<void> {
  const store = openStore({ engine: 'sqlite', path, fullSync: true })
  try {
    await store.migrate()
  } finally {
    await store.close()
  }
}

/** Restores a backup into an empty data directory, and into an empty database if DATABASE_URL is set. */
export async function restore({
  file: path,
  dataDir,
  databaseUrl,
  isSecretSet,
}: RestoreOptions): Promise<Report> {
  const { version, time, engine } = examine(path)
  refuseUsed(dataDir)
  makeDirectory(dataDir)
  const lock = lockDirectory(dataDir)
  const storePart = join(dataDir, RESTORED_PART)
  const nodesPart = join(dataDir, 'nodes.part')
  const clear = () => {
    for (const suffix of ['', '-wal', '-shm', '-journal']) rmSync(`${storePart}${suffix}`, { force: true })
    rmSync(nodesPart, { recursive: true, force: true })
  }
  let isWriting = false
  try {
    refuseUsed(dataDir)
    // A restore that was killed at its very end may have filled the database, which then needs the journals that are here.
    if (databaseUrl !== undefined) await mustBeEmpty(databaseUrl)
    isWriting = true
    if (isRestoreInterrupted(dataDir)) rmSync(join(dataDir, 'nodes'), { recursive: true, force: true })
    clear()
    copyFileSync(path, storePart, constants.COPYFILE_EXCL)
    await migrateBackup(storePart)
    const file = openFile(storePart)
    let journals: { nodes: number; records: number }
    try {
      journals = writeJournals(file, nodesPart)
      // The store is moved last: a start detects journals without their store, but not a store without its journals.
      replaceDirectory(nodesPart, join(dataDir, 'nodes'))
      if (databaseUrl !== undefined) await fillPostgres(file, databaseUrl)
      else file.exec(DROP_BACKUP_SCHEMA)
    } catch (error) {
      rmSync(join(dataDir, 'nodes'), { recursive: true, force: true })
      throw error
    } finally {
      file.close()
    }
    if (databaseUrl === undefined) {
      syncPath(storePart)
      renameSync(storePart, join(dataDir, 'sluice.db'))
    }
    syncPath(dataDir)
    return { ok: true, lines: reportLines({ version, time, engine, ...journals }) }
  } finally {
    if (isWriting) clear()
    lock.release()
  }

  function reportLines(done: Info & { nodes: number; records: number }): string[] {
    const to = databaseUrl === undefined ? dataDir : `${dataDir} and the database of DATABASE_URL`
    const isSecretHere = isSecretSet || existsSync(join(dataDir, 'secret'))
    return [
      `restored into ${to}: state of ${new Date(done.time * 1000).toISOString()}, backed up by Sluice ${done.version} on ${done.engine}`,
      `the next start applies ${done.records} journal records of ${done.nodes} nodes`,
      ...(isSecretHere
        ? []
        : [`before you start, set SLUICE_SECRET or copy the secret to ${join(dataDir, 'secret')}`]),
    ]
  }
}
