import { statfsSync } from 'node:fs'
import type { Finding } from '../../cli/finding.ts'
import { mismatches, readMachine } from '../../host/machine.ts'
import type { Config } from '../config.ts'
import { existingDirectory } from './files.ts'

const MIB = 1_048_576
/** Below this, uploads and the journal soon fail. */
const LEAST_FREE_BYTES = 128 * MIB
const FEW_FREE_BYTES = 1024 * MIB

function examineDisk(directory: string): Finding {
  const { bavail, bsize, blocks } = statfsSync(directory)
  const free = bavail * bsize
  const share = blocks > 0 ? ` (${Math.floor((bavail / blocks) * 100)} %)` : ''
  const message = `${Math.floor(free / MIB).toLocaleString('en')} MiB${share} free on the disk of SLUICE_DATA`
  if (free < LEAST_FREE_BYTES)
    return { check: 'disk', level: 'failure', message: `${message}; at least 128 MiB are needed` }
  if (free < FEW_FREE_BYTES) return { check: 'disk', level: 'warning', message }
  return { check: 'disk', level: 'ok', message }
}

/** Disk, file descriptors and memory, compared with the settings. */
export function examineMachine(config: Config): readonly Finding[] {
  const directory = existingDirectory(config.dataDir)
  const machine = readMachine(directory)
  const exceeded = mismatches(config, machine)
  const ofDescriptors = exceeded.filter(message => message.startsWith('SLUICE_MAX_CONNECTIONS'))
  const descriptors = machine.maxDescriptors ?? 'unknown'
  return [
    examineDisk(directory),
    ...(ofDescriptors.length > 0
      ? ofDescriptors.map((message): Finding => ({ check: 'descriptors', level: 'warning', message }))
      : [
          {
            check: 'descriptors',
            level: 'ok',
            message: `${descriptors} open files, enough for ${config.maxConnections} connections`,
          } as const,
        ]),
    ...exceeded
      .filter(message => !ofDescriptors.includes(message))
      .map((message): Finding => ({ check: 'memory', level: 'warning', message })),
  ]
}
