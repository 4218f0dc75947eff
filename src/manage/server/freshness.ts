import type { FastifyReply } from 'fastify'

/** Balances are told as of now; where a worker could not be asked in time, the answer says so (design 2). */
export async function markIfStale(reply: FastifyReply, caughtUp: Promise<boolean>): Promise<void> {
  if (!(await caughtUp)) reply.header('x-sluice-stale', '1')
}
