import { usdText } from '../domain/money.ts'
import { type NodeSummary, nodeSummary } from '../domain/node.ts'
import { type Db, type Engine, type Trx, transact } from '../store/engine/store.ts'
import { drainNode, retirementObstacle, retireNode } from '../store/records/node-retirement.ts'
import { listNodes } from '../store/records/nodes.ts'
import { CommandError } from './command.ts'

type NodeDeps = { readonly db: Db; readonly engine: Engine; readonly now: () => number }
type Record = (trx: Trx, action: string, target: string, after?: unknown) => Promise<void>

/** The operations behind `sluice node …`. */
export function createNodeOperations({ db, engine, now }: NodeDeps, record: Record) {
  return {
    async listNodes(): Promise<readonly NodeSummary[]> {
      const nodes = await listNodes(db, engine)
      return nodes.map(node => nodeSummary(node, engine === 'postgres'))
    },

    async drainNode({ id }: { id: string }) {
      if (engine === 'sqlite')
        throw new CommandError('this is the only gateway on its database: stop it with SIGTERM')
      await transact(db, async trx => {
        if (!(await drainNode(trx, id))) throw new CommandError(`no running node has the ID "${id}"`)
        await record(trx, 'node.drain', `node:${id}`)
      })
      return { id, state: 'draining' }
    },

    async retireNode({ id }: { id: string }) {
      const obstacle = await retirementObstacle(db, engine, id)
      if (obstacle?.kind === 'unknown') throw new CommandError(`no node has the ID "${id}"`)
      if (obstacle)
        throw new CommandError(
          `the node is running, or was running a moment ago: stop it; it can be retired after ${new Date(obstacle.until * 1000).toISOString()}`,
        )
      return transact(db, async trx => {
        const { accounts, leased } = await retireNode(trx, id, now())
        const after = { accounts, leased: usdText(leased) }
        await record(trx, 'node.retire', `node:${id}`, after)
        return { id, state: 'retired', ...after }
      })
    },
  }
}
