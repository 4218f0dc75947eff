import type { FastifyReply, FastifyRequest } from 'fastify'
import { type ErrorAnswer, managementError, relayError, storeUnavailable } from '../../http/errors.ts'
import type { Deps } from './deps.ts'

/** A request that has waited this long triggers a check of the store. */
const SLOW_MS = 5_000
const LOOK_EVERY_MS = 1_000

/** The error format of the relay for routes that use it, else that of the management API. */
export const errorFormatOf = ({ routeOptions }: FastifyRequest) =>
  routeOptions.config.route?.relayErrors ? relayError : managementError

const isAnswered = ({ sent: isSent, raw }: FastifyReply) => isSent || raw.headersSent || raw.destroyed

/**
 * Responds with 503 to waiting requests when the store does not respond to a ping: a query on a hanging store would fail
 * only after half a minute. One timer watches all requests, and stops while there are none.
 */
export function createStoreWatch(
  isStoreAnswering: Deps['isStoreAnswering'],
  send: (reply: FastifyReply, answer: ErrorAnswer) => void,
) {
  const waiting = new Set<FastifyReply>()
  let clock: NodeJS.Timeout | undefined

  const isWaitingLong = (reply: FastifyReply) =>
    reply.elapsedTime >= SLOW_MS && !isAnswered(reply) && waiting.has(reply)

  async function look(): Promise<void> {
    if (waiting.size === 0) {
      clearInterval(clock)
      clock = undefined
      return
    }
    const long = [...waiting].filter(isWaitingLong)
    if (long.length === 0 || (await isStoreAnswering())) return
    for (const reply of long.filter(isWaitingLong)) {
      // The store may still execute a write.
      const refusal = storeUnavailable({ isOutcomeUnknown: reply.request.method !== 'GET' })
      send(reply, errorFormatOf(reply.request)(refusal))
    }
  }

  return (reply: FastifyReply): void => {
    waiting.add(reply)
    reply.raw.once('close', () => waiting.delete(reply))
    clock ??= setInterval(look, LOOK_EVERY_MS).unref()
  }
}
