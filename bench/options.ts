import { parseArgs } from 'node:util'
import { ENGINES, type Engine } from './sluice.ts'

export type Options = {
  readonly runs: number
  readonly requests: number | undefined
  readonly engine: Engine
  /** The selected benches; by default all. */
  readonly engines: readonly Engine[]
  /** The folder in which `lists` keeps its store for the next run. */
  readonly keep: string | undefined
  /** Only rows of `hostile` whose name has this in it. */
  readonly row: string
  /** `relay` over TLS to the provider. */
  readonly tls: boolean
  /** `relay` beside other gateways. */
  readonly peers: boolean
  /** `relay` with Sluice in other settings: without a log line, with two workers, with traces, with bodies kept. */
  readonly variants: boolean
  /** `relay` beside the least that a gateway with the HTTP and the ledger of Sluice can take. */
  readonly limits: boolean
}

export class UsageError extends Error {}

function whole(flag: string, text: string, most: number): number {
  const value = Number(text)
  if (/^\d+$/.test(text) && value >= 1 && value <= most) return value
  throw new UsageError(`--${flag} must be a whole number from 1 to ${most}, not "${text}"`)
}

function engineOf(text: string): Engine {
  const engine = ENGINES.find(name => name === text)
  if (!engine) throw new UsageError(`--engine must be one of ${ENGINES.join(', ')}, not "${text}"`)
  return engine
}

export function readOptions(): { names: string[]; options: Options } {
  const { positionals, values } = parseArgs({
    allowPositionals: true,
    options: {
      runs: { type: 'string', default: '3' },
      requests: { type: 'string' },
      engine: { type: 'string' },
      keep: { type: 'string' },
      row: { type: 'string', default: '' },
      tls: { type: 'boolean', default: false },
      peers: { type: 'boolean', default: false },
      variants: { type: 'boolean', default: false },
      limits: { type: 'boolean', default: false },
    },
  })
  const engine = values.engine === undefined ? undefined : engineOf(values.engine)
  return {
    names: positionals,
    options: {
      runs: whole('runs', values.runs, 50),
      requests: values.requests === undefined ? undefined : whole('requests', values.requests, 10_000_000),
      engine: engine ?? 'sqlite',
      engines: engine ? [engine] : ENGINES,
      keep: values.keep,
      row: values.row,
      tls: values.tls,
      peers: values.peers,
      variants: values.variants,
      limits: values.limits,
    },
  }
}
