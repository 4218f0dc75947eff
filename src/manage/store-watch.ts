import type { FastifyReply, FastifyRequest } from 'fastify'
import { type ErrorAnswer, managementError, relayError, storeUnavailable } from '../http/errors.ts'
import type { Deps } from './deps.ts'

/** So long a request waits for its answer before somebody looks whether the store still gives any. */
const LOOK_EVERY_MS = 5_000

/** Told by the relay's own words where the route is one of its kind. */
export const shapeFor = ({ routeOptions }: FastifyRequest) =>
  routeOptions.config.route?.relayErrors ? relayError : managementError

const isUnderWay = ({ sent, raw }: FastifyReply) => sent || raw.headersSent || raw.destroyed

/**
 * A store that hangs fails nobody's question before half a minute is over. Whoever waits is told sooner; a store that
 * lives may take its time.
 */
export const createStoreWatch =
  (isStoreAnswering: Deps['isStoreAnswering'], send: (reply: FastifyReply, answer: ErrorAnswer) => void) =>
  (request: FastifyRequest, reply: FastifyReply): void => {
    const look = async () => {
      if (isUnderWay(reply) || (await isStoreAnswering()) || isUnderWay(reply)) return
      // What it was asked to write it may yet do.
      const refusal = storeUnavailable({ isInDoubt: request.method !== 'GET' })
      send(reply, shapeFor(request)(refusal))
    }
    const timer = setInterval(look, LOOK_EVERY_MS)
    reply.raw.once('close', () => clearInterval(timer))
  }
