import type { IncomingMessage } from 'node:http'
import { fastifyCookie } from '@fastify/cookie'
import { Refusal } from '../../domain/errors.ts'
import type { Deps } from '../server/deps.ts'
import { isSameOrigin, SESSION_COOKIE } from '../server/serve.ts'

/** Typed or pasted into the address bar: no page of another site can make a browser say that. */
const isTypedAddress = ({ headers }: IncomingMessage) =>
  headers['sec-fetch-site'] === 'none' && headers['sec-fetch-mode'] === 'navigate'

/** Finds the user of a console session for a request outside of `/api` that only reads; undefined where none counts. */
export const createSessionUser =
  ({ bySession }: Pick<Deps['identify'], 'bySession'>) =>
  async (request: IncomingMessage): Promise<number | undefined> => {
    const session = fastifyCookie.parse(request.headers.cookie ?? '')[SESSION_COOKIE]
    if (session === undefined || !(isTypedAddress(request) || isSameOrigin(request))) return undefined
    try {
      return (await bySession(session)).id
    } catch (error) {
      // A session that has ended names no caller; a store that does not answer is another matter.
      if (error instanceof Refusal) return undefined
      throw error
    }
  }
