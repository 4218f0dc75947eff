import { renameSync } from 'node:fs'
import { join } from 'node:path'
import { readMeta } from '../store/engine/meta.ts'
import type { Store } from '../store/engine/store.ts'
import { compareStores, copyStore, endCopy, isCopyOf, isIncompleteCopy } from '../store/engine/store-move.ts'
import { openFile } from './backup-file.ts'
import { CommandError, type Report } from './command.ts'

export type MigrateOptions = {
  readonly dataDir: string
  /** Verifies the ledger in SQLite. */
  verifySource(): Promise<Report>
  readonly target: Store
  /** Opens the keys of the complete copy and verifies its ledger. */
  verifyTarget(): Promise<Report>
  print(line: string): void
}

/** The SQLite file after the move. Without its usual name, no gateway starts on the old data by mistake. */
export const MOVED_FILE = 'sluice.db.moved'
const MOVED = `moved; the SQLite file is kept as ${MOVED_FILE}. Start the gateway with DATABASE_URL and the same SLUICE_DATA`

type SourceFile = ReturnType<typeof openFile>

/** Whether an earlier run has moved everything, and was killed before it renamed the file. Refuses any other gateway. */
async function isMoved(file: SourceFile, { db, isInitialised }: Store): Promise<boolean> {
  const isUsed = (await isInitialised()) && (await readMeta(db, 'digest_key')) !== undefined
  if (!isUsed || (await isIncompleteCopy(db))) return false
  if (await isCopyOf(file, db)) return true
  throw new CommandError('the database of --to already contains a gateway; move into an empty database')
}

function mustPass(side: string, { ok, lines, faults = lines }: Report): void {
  if (!ok) throw new CommandError(`the ledger in ${side} does not verify: ${faults.join('; ')}`)
}

/**
 * Moves the data of a stopped gateway from SQLite to PostgreSQL. Journals, anchors and the master secret stay in the data
 * directory. Repeating an interrupted move continues it.
 */
export async function migrateToPostgres(options: MigrateOptions): Promise<Report> {
  const { dataDir, target, verifySource, verifyTarget, print } = options
  const file = openFile(join(dataDir, 'sluice.db'), { readOnly: true })
  try {
    if (await isMoved(file, target))
      return { ok: true, lines: ['an earlier run has moved everything', MOVED] }
    await target.migrate()
    mustPass('SQLite', await verifySource())
    print('the ledger in SQLite verifies')
    const { isResumed } = await copyStore(file, target.db, ({ table, rows }) =>
      print(`copied ${table}: ${rows} rows`),
    )
    if (isResumed) print('an interrupted copy was continued')
    const differences = await compareStores(file, target.db)
    if (differences.length > 0)
      throw new CommandError(
        `the copy differs from SQLite (${differences.join('; ')}); run the command again`,
      )
    print('every table has the same rows in both databases')
    mustPass('PostgreSQL', await verifyTarget())
    await endCopy(file, target.db)
  } finally {
    file.close()
  }
  return { ok: true, lines: ['the ledger in PostgreSQL verifies', MOVED] }
}

/** Called when the SQLite file is closed. */
export function retireFile(dataDir: string): void {
  for (const suffix of ['', '-wal', '-shm'])
    try {
      renameSync(join(dataDir, `sluice.db${suffix}`), join(dataDir, `${MOVED_FILE}${suffix}`))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    }
}
