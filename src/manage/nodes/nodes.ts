import { notFound, Refusal } from '../../domain/errors.ts'
import { usdText } from '../../domain/money.ts'
import { nodeSummary } from '../../domain/node.ts'
import {
  drainNode,
  type RetirementObstacle,
  retirementObstacle,
  retireNode,
} from '../../store/records/node-retirement.ts'
import { findNode, listNodes } from '../../store/records/nodes.ts'
import type { nodeContract } from '../contract/nodes.ts'
import type { Handlers } from '../server/call.ts'
import type { Deps } from '../server/deps.ts'

/** Throws unless the node can be retired. */
function mustBeRetirable(obstacle: RetirementObstacle | undefined): void {
  if (obstacle?.kind === 'unknown') throw notFound('node')
  if (obstacle)
    throw new Refusal(
      'conflict',
      `The node is running, or was running a moment ago. Stop it; it can be retired after ${new Date(obstacle.until * 1000).toISOString()}.`,
    )
}

export function createNodeHandlers({ db, engine, now }: Deps): Handlers<typeof nodeContract> {
  return {
    drainNode: async ({ params, change }) => {
      const node = await findNode(db, engine, params.id)
      if (!node) throw notFound('node')
      if (engine === 'sqlite')
        throw new Refusal('conflict', 'This is the only gateway on its database. Stop it with SIGTERM.')
      return change(async ({ trx, audit }) => {
        if (!(await drainNode(trx, params.id)))
          throw new Refusal('conflict', `The node is ${node.state} already.`)
        audit({ action: 'node.drain', target: `node:${params.id}` })
        return { id: params.id, state: 'draining' as const }
      })
    },

    retireNode: async ({ params, change }) => {
      mustBeRetirable(await retirementObstacle(db, engine, params.id))
      return change(async ({ trx, audit }) => {
        // The node may have returned while the change waited for others.
        mustBeRetirable(await retirementObstacle(trx, engine, params.id))
        const { accounts, leased } = await retireNode(trx, params.id, now())
        const after = { accounts, leased: usdText(leased) }
        audit({ action: 'node.retire', target: `node:${params.id}`, after })
        return { id: params.id, state: 'retired' as const, ...after }
      })
    },

    listNodes: async () =>
      (await listNodes(db, engine)).map(node => nodeSummary(node, engine === 'postgres')),
  }
}
