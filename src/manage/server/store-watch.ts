import type { FastifyReply, FastifyRequest } from 'fastify'
import { type ErrorAnswer, managementError, relayError, storeUnavailable } from '../../http/errors.ts'
import type { Deps } from './deps.ts'

/** So long a request waits for its answer before somebody asks whether the store still gives any. */
const PATIENCE_MS = 5_000
const LOOK_EVERY_MS = 1_000

/** Told by the relay's own words where the route is one of its kind. */
export const shapeFor = ({ routeOptions }: FastifyRequest) =>
  routeOptions.config.route?.relayErrors ? relayError : managementError

const isUnderWay = ({ sent, raw }: FastifyReply) => sent || raw.headersSent || raw.destroyed

/**
 * A store that hangs fails nobody's question before half a minute is over. Whoever waits is told sooner; a store that
 * lives may take its time. One clock looks after all requests, and stands still while there are none.
 */
export function createStoreWatch(
  isStoreAnswering: Deps['isStoreAnswering'],
  send: (reply: FastifyReply, answer: ErrorAnswer) => void,
) {
  const waiting = new Set<FastifyReply>()
  let clock: NodeJS.Timeout | undefined

  const isWaitingLong = (reply: FastifyReply) =>
    reply.elapsedTime >= PATIENCE_MS && !isUnderWay(reply) && waiting.has(reply)

  async function look(): Promise<void> {
    if (waiting.size === 0) {
      clearInterval(clock)
      clock = undefined
      return
    }
    const long = [...waiting].filter(isWaitingLong)
    if (long.length === 0 || (await isStoreAnswering())) return
    for (const reply of long.filter(isWaitingLong)) {
      // What it was asked to write it may yet do.
      const refusal = storeUnavailable({ isOutcomeUnknown: reply.request.method !== 'GET' })
      send(reply, shapeFor(reply.request)(refusal))
    }
  }

  return (reply: FastifyReply): void => {
    waiting.add(reply)
    reply.raw.once('close', () => waiting.delete(reply))
    clock ??= setInterval(look, LOOK_EVERY_MS).unref()
  }
}
