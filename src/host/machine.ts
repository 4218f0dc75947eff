import { closeSync, mkdirSync, openSync, readFileSync, statfsSync } from 'node:fs'
import { totalmem } from 'node:os'

const MIB = 1_048_576

/** The resources of the machine that this process may use. */
export type Machine = {
  /** Of the machine, or of the container if that has less. */
  readonly memoryBytes: number
  /** On the disk of the data directory, at the start, before any upload. */
  readonly freeDiskBytes: number
  /** Undefined if the system does not report it. */
  readonly maxDescriptors: number | undefined
}

export function readMachine(dataDir: string): Machine {
  mkdirSync(dataDir, { recursive: true, mode: 0o700 })
  const { bavail, bsize } = statfsSync(dataDir)
  const constrained = process.constrainedMemory()
  return {
    memoryBytes: constrained > 0 ? Math.min(constrained, totalmem()) : totalmem(),
    freeDiskBytes: bavail * bsize,
    maxDescriptors: descriptorLimit(),
  }
}

/** The soft limit, which Node.js has raised to the hard limit by now. */
function descriptorLimit(): number | undefined {
  try {
    const [, soft] = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? []
    return soft === undefined ? undefined : Number(soft)
  } catch {
    // Only Linux has this file.
    return undefined
  }
}

/** Whether one more file can be opened. */
export function hasDescriptors(): boolean {
  try {
    closeSync(openSync('/dev/null', 'r'))
    return true
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    return code !== 'EMFILE' && code !== 'ENFILE'
  }
}

/** Descriptors that the store, the journal, uploads and the log need besides connections. */
const RESERVED_DESCRIPTORS = 128
/** The largest share of a small limit that is reserved. */
const RESERVED_SHARE = 0.4
/** Each client connection needs one to a provider, and a fifth more connections are accepted in order to refuse them. */
const DESCRIPTORS_A_CONNECTION = 2.2
const LEAST_CONNECTIONS = 10

const reservedOf = (descriptors: number) => Math.min(RESERVED_DESCRIPTORS, descriptors * RESERVED_SHARE)

const neededFor = (connections: number) =>
  Math.ceil(connections * DESCRIPTORS_A_CONNECTION) + RESERVED_DESCRIPTORS

const MEMORY_SHARE = 1 / 4
const DISK_SHARE = 1 / 10

/** The limits of one process: settings, or defaults that follow from the machine, divided among the workers. */
export type ProcessLimits = {
  readonly memoryBytes: number
  readonly tmpBytes: number
  readonly connections: number
}

/** The start settings that limit a process; undefined if the default of the machine applies. */
type LimitSettings = {
  readonly maxMemoryMb: number | undefined
  readonly maxTmpMb: number | undefined
  readonly maxConnections: number
  readonly workers: number
  readonly maxBodyMb: number
}

export function processLimits(config: LimitSettings, machine: Machine): ProcessLimits {
  const { memoryBytes, freeDiskBytes, maxDescriptors } = machine
  const { maxMemoryMb, maxTmpMb, maxConnections, workers } = config
  const memory = maxMemoryMb === undefined ? memoryBytes * MEMORY_SHARE : maxMemoryMb * MIB
  const tmp = maxTmpMb === undefined ? freeDiskBytes * DISK_SHARE : maxTmpMb * MIB
  const room =
    maxDescriptors === undefined
      ? maxConnections
      : Math.floor((maxDescriptors - reservedOf(maxDescriptors)) / DESCRIPTORS_A_CONNECTION)
  return {
    memoryBytes: Math.floor(memory / workers),
    tmpBytes: Math.floor(tmp / workers),
    connections: Math.max(LEAST_CONNECTIONS, Math.min(maxConnections, room)),
  }
}

const inMiB = (bytes: number) => Math.floor(bytes / MIB).toLocaleString('en')

/** Settings that exceed the machine, each as a message that names both figures. */
export function mismatches(config: LimitSettings, machine: Machine): readonly string[] {
  const { maxMemoryMb, maxTmpMb, maxConnections, maxBodyMb, workers } = config
  const { memoryBytes, freeDiskBytes, maxDescriptors } = machine
  const limits = processLimits(config, machine)
  const warnings: string[] = []
  if (maxDescriptors !== undefined && neededFor(maxConnections) > maxDescriptors)
    warnings.push(
      `SLUICE_MAX_CONNECTIONS is ${maxConnections}, which needs ${neededFor(maxConnections)} file descriptors, but the process may open ${maxDescriptors} (ulimit -n). Connections are limited to ${limits.connections}. Raise the limit of open files or lower SLUICE_MAX_CONNECTIONS.`,
    )
  if (maxMemoryMb !== undefined && maxMemoryMb * MIB > memoryBytes)
    warnings.push(
      `SLUICE_MAX_MEMORY_MB is ${maxMemoryMb}, but the machine or container has ${inMiB(memoryBytes)} MiB of memory. Lower SLUICE_MAX_MEMORY_MB.`,
    )
  if (limits.memoryBytes < maxBodyMb * MIB)
    warnings.push(
      `The memory for all bodies is ${inMiB(limits.memoryBytes)} MiB a worker (${workers} of them), but SLUICE_MAX_BODY_MB allows a single body of ${maxBodyMb} MiB. Raise SLUICE_MAX_MEMORY_MB or lower SLUICE_MAX_BODY_MB.`,
    )
  if (maxTmpMb !== undefined && maxTmpMb * MIB > freeDiskBytes)
    warnings.push(
      `SLUICE_MAX_TMP_MB is ${maxTmpMb}, but the disk of SLUICE_DATA has ${inMiB(freeDiskBytes)} MiB free. Lower SLUICE_MAX_TMP_MB or free space.`,
    )
  return warnings
}
