import { usdText } from '../domain/money.ts'
import { type NodeState, nodeStateOf } from '../domain/node.ts'
import { type Db, type Engine, type Trx, transact } from '../store/engine/store.ts'
import { drainNode, retirementObstacle, retireNode } from '../store/records/node-retirement.ts'
import { listNodes } from '../store/records/nodes.ts'
import { CommandError } from './command.ts'

/** A node, as `sluice node list` prints it. */
export type NodeSummary = {
  readonly id: string
  readonly name: string
  readonly address: string
  readonly version: string
  readonly state: NodeState
  readonly heartbeat_time: number
  readonly applied: number
  readonly position: number
  readonly leased: string
  readonly in_flight: number
}

type NodeDeps = { readonly db: Db; readonly engine: Engine; readonly now: () => number }
type Record = (trx: Trx, action: string, target: string, after?: unknown) => Promise<void>

/** The operations behind `sluice node …`. */
export function createNodeOperations({ db, engine, now }: NodeDeps, record: Record) {
  return {
    async listNodes(): Promise<readonly NodeSummary[]> {
      return (await listNodes(db, engine)).map(row => {
        const beatMs = engine === 'postgres' ? row.beat_ms : row.now_ms
        return {
          id: row.node_id,
          name: row.name,
          address: row.address,
          version: row.version,
          state: nodeStateOf(row.state, row.now_ms - beatMs, row.fence_ms),
          heartbeat_time: Math.floor(beatMs / 1_000),
          applied: row.applied,
          position: row.position,
          leased: usdText(row.leased ?? 0),
          in_flight: row.in_flight,
        }
      })
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

const WIDTHS = { id: 14, name: 22, state: 10, version: 9, address: 22 } as const

/** A table for people. */
export function nodeLines(nodes: readonly NodeSummary[], now: number): string[] {
  const row = (cells: Readonly<{ [column in keyof typeof WIDTHS]: string }>, rest: string) =>
    `${(Object.keys(WIDTHS) as (keyof typeof WIDTHS)[]).map(column => cells[column].padEnd(WIDTHS[column])).join(' ')} ${rest}`
  const header = { id: 'ID', name: 'NAME', state: 'STATE', version: 'VERSION', address: 'ADDRESS' }
  return [
    row(header, 'HEARTBEAT  BEHIND  LEASED  IN FLIGHT'),
    ...nodes.map(node =>
      row(
        node,
        [
          `${Math.max(0, now - node.heartbeat_time)} s ago`.padEnd(10),
          String(Math.max(0, node.position - node.applied)).padEnd(7),
          `$${node.leased}`.padEnd(7),
          String(node.in_flight),
        ].join(' '),
      ),
    ),
  ]
}
