import { z } from 'zod'
import { NODE_STATES } from '../../domain/node.ts'
import type { Contract } from './route.ts'

export const nodeView = z
  .object({
    id: z.string(),
    name: z.string(),
    address: z.string(),
    version: z.string(),
    state: z.enum(NODE_STATES),
    heartbeat_time: z.int().describe('The last heartbeat, in Unix seconds by the clock of the database'),
    fenced_time: z
      .int()
      .describe('When the node refuses requests without another heartbeat, in Unix seconds'),
    applied: z
      .int()
      .describe('The last change that the node has applied: a sequence number of the audit log'),
    position: z.int().describe('The last change of all'),
    leased: z.string().describe('What users have leased to the node, exact USD'),
    in_flight: z.int().describe('Running relay requests'),
  })
  .meta({ id: 'Node' })

const nodeParams = z.object({ id: z.string().regex(/^[0-9a-f]{8}-[0-9a-f]{4}$/, 'must be the ID of a node') })

export const nodeContract = {
  listNodes: {
    method: 'GET',
    path: '/api/node/',
    access: 'admin',
    summary: 'The nodes (relay processes) of all gateways that share the database',
    data: z.array(nodeView),
  },
  drainNode: {
    method: 'POST',
    path: '/api/node/:id/drain',
    access: 'root',
    summary:
      'Stop the gateway of a node as SIGTERM does: it finishes running requests, returns its leases and exits',
    params: nodeParams,
    data: z.object({ id: z.string(), state: z.enum(NODE_STATES) }),
  },
  retireNode: {
    method: 'POST',
    path: '/api/node/:id/retire',
    access: 'root',
    summary: 'Retire a fenced node that will not return: return its leases, and refuse its records',
    params: nodeParams,
    data: z.object({
      id: z.string(),
      state: z.enum(NODE_STATES),
      accounts: z.int().describe('Users from whom the node had leased'),
      leased: z
        .string()
        .describe('What the node may have spent at most without reporting it, exact USD; now in suspense'),
    }),
  },
} as const satisfies Contract
