import type { CommandOutcome, RunCommand } from '../cli/control.ts'
import type { Operations } from '../cli/operations.ts'
import { CONFIRM_WITHIN_MS } from '../domain/node.ts'
import { createConfirmations } from '../fleet/confirmations.ts'
import { createObservations } from '../fleet/observations.ts'
import { chainKeyOf } from '../store/books/chain-key.ts'
import { signMessage } from '../store/engine/listener.ts'
import type { Store } from '../store/engine/store.ts'
import { changePosition, wakeOtherMachines } from '../store/records/nodes.ts'
import { fleetClock } from './fleet.ts'

/** A command runs on no machine of the fleet: all nodes are others. */
const NO_MACHINE = ''

const timeText = (unixS: number) => new Date(unixS * 1000).toISOString()

/**
 * Runs the operation of a command. If it has changed something in a database that gateways share, it ends when all their nodes
 * have applied the change or are fenced, like a change by the API (docs/reference/management-api.md: Changes in a fleet).
 */
export function createCommandRunner({ db, engine }: Pick<Store, 'db' | 'engine'>, operations: Operations) {
  const run: RunCommand = (name, input) =>
    (operations[name] as (input: unknown) => Promise<unknown>)(input).then(result => ({ result }))
  if (engine === 'sqlite') return run

  const payload = signMessage(chainKeyOf(db), JSON.stringify({ changed: NO_MACHINE }))
  const { confirm } = createConfirmations({
    store: { wake: () => wakeOtherMachines(db, NO_MACHINE, payload) },
    clock: { ...fleetClock, wait: ms => new Promise(resolve => setTimeout(resolve, ms)) },
    observations: createObservations(fleetClock),
  })

  /** What the operator must know about the nodes; undefined if all of them have applied the change. */
  async function warningOfNodes(): Promise<string | undefined> {
    try {
      const { waiting } = await confirm(CONFIRM_WITHIN_MS)
      if (waiting.length === 0) return undefined
      const nodes = waiting.map(({ id, until }) => `${id} (until ${timeText(until)} at the latest)`)
      return `these nodes do not respond and may still use the old state: ${nodes.join(', ')}`
    } catch (error) {
      return `the change is made, but it is unknown whether all nodes have applied it: ${(error as Error).message}`
    }
  }

  return async (...command: Parameters<RunCommand>): Promise<CommandOutcome> => {
    const position = await changePosition(db)
    const outcome = await run(...command)
    if ((await changePosition(db)) === position) return outcome
    const warning = await warningOfNodes()
    return warning === undefined ? outcome : { ...outcome, warning }
  }
}
