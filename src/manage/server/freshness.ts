import type { FastifyReply } from 'fastify'

/** Marks the response stale when a worker did not report in time (docs/reference/money.md: Balances). */
export async function markIfStale(reply: FastifyReply, caughtUp: Promise<boolean>): Promise<void> {
  if (!(await caughtUp)) reply.header('x-sluice-stale', '1')
}
