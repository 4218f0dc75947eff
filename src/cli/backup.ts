import { randomBytes } from 'node:crypto'
import { chmodSync, existsSync, linkSync, renameSync, rmSync, statSync } from 'node:fs'
import { basename, dirname } from 'node:path'
import { syncPath } from '../host/sync-path.ts'
import type { BackupJob, Copied } from './backup-thread.ts'
import { CommandError, type OperationDeps, type Report } from './command.ts'
import { runThread } from './thread.ts'

const exists = (file: string) => new CommandError(`${file} already exists; a backup never overwrites a file`)

/** Renames the finished file, without replacing a file of that name. */
function publish(part: string, file: string): void {
  try {
    linkSync(part, file)
    rmSync(part)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST' || existsSync(file)) throw exists(file)
    // Some file systems have no hard links.
    renameSync(part, file)
  }
  syncPath(dirname(file))
}

const SECRET_STAYS =
  'the backup does not contain the master secret: keep SLUICE_SECRET, or the file SLUICE_DATA/secret, in another place'

/** Copies the store and the journals into one file while requests continue. */
export function createBackup({ dataDir, storeOptions: store, version, now }: OperationDeps) {
  return async function backup({ file }: { file: string }): Promise<Report> {
    if (existsSync(file)) throw exists(file)
    if (!statSync(dirname(file), { throwIfNoEntry: false })?.isDirectory())
      throw new CommandError(`${dirname(file)} is not a directory`)
    const part = `${file}.${randomBytes(4).toString('hex')}.part`
    const time = now()
    try {
      const job: BackupJob = { dataDir, store, path: part, version, time }
      const done = await runThread<Copied>('backup-thread', job)
      chmodSync(part, 0o600)
      syncPath(part)
      const { size } = statSync(part)
      publish(part, file)
      const as = new Date(time * 1000).toISOString()
      return {
        ok: true,
        lines: [
          `${basename(file)}: state of ${as}, ${size} bytes, with ${done.records} journal records of ${done.nodes} nodes`,
          SECRET_STAYS,
        ],
      }
    } finally {
      for (const suffix of ['', '-journal', '-wal', '-shm']) rmSync(`${part}${suffix}`, { force: true })
    }
  }
}
