import { accessSync, constants, existsSync, lstatSync, readdirSync, type Stats, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { socketPath } from '../../cli/control.ts'
import type { Finding } from '../../cli/finding.ts'
import type { Config } from '../config.ts'

/** The permissions of a group and of all others. */
const OTHERS = 0o077
/** The maximum length of a socket path on every system. */
const MAX_SOCKET_PATH = 103
const MAX_NAMES = 5

const finding = (level: Finding['level'], message: string): Finding => ({ check: 'files', level, message })

/** The nearest directory that exists: the first start creates the others. */
export function existingDirectory(path: string): string {
  return existsSync(path) || dirname(path) === path ? path : existingDirectory(dirname(path))
}

function isWritable(directory: string): boolean {
  try {
    accessSync(directory, constants.W_OK | constants.X_OK)
    return true
  } catch {
    return false
  }
}

const isOpen = ({ mode }: Stats) => (mode & OTHERS) !== 0

/** Files of the data directory that other users of the machine may read or write. */
const openFiles = (directory: string) =>
  readdirSync(directory).filter(name => {
    const stats = lstatSync(join(directory, name), { throwIfNoEntry: false })
    return stats !== undefined && !stats.isSymbolicLink() && isOpen(stats)
  })

/** The data directory: who may read and write it. */
export function examineFiles({ dataDir }: Config): readonly Finding[] {
  const stats = statSync(dataDir, { throwIfNoEntry: false })
  if (stats === undefined) {
    const parent = existingDirectory(dataDir)
    return isWritable(parent)
      ? [finding('ok', `${dataDir} does not exist yet; the first start creates it`)]
      : [finding('failure', `${dataDir} does not exist, and this user cannot create it in ${parent}`)]
  }
  if (!stats.isDirectory()) return [finding('failure', `SLUICE_DATA (${dataDir}) is not a directory`)]
  if (!isWritable(dataDir)) return [finding('failure', `this user cannot write to ${dataDir}`)]
  const findings: Finding[] = []
  if (Buffer.byteLength(socketPath(dataDir)) > MAX_SOCKET_PATH)
    findings.push(finding('failure', `${dataDir} is too long for the control socket in it`))
  if (process.getuid && stats.uid !== process.getuid())
    findings.push(
      finding('warning', `${dataDir} belongs to user ${stats.uid}, not to this user (${process.getuid()})`),
    )
  if (isOpen(stats))
    findings.push(finding('warning', `other users may enter ${dataDir}: run chmod 700 ${dataDir}`))
  const open = openFiles(dataDir)
  // A closed directory protects its files.
  if (open.length > 0 && isOpen(stats))
    findings.push(
      finding(
        open.includes('secret') ? 'failure' : 'warning',
        `other users may read ${open.slice(0, MAX_NAMES).join(', ')}: run chmod -R go= ${dataDir}`,
      ),
    )
  return findings.length > 0 ? findings : [finding('ok', `${dataDir} is writable, and closed to other users`)]
}
