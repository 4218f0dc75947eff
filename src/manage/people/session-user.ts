import type { IncomingMessage } from 'node:http'
import { fastifyCookie } from '@fastify/cookie'
import { Refusal } from '../../domain/errors.ts'
import type { Deps } from '../server/deps.ts'
import { isSameOrigin, SESSION_COOKIE } from './session-cookie.ts'

/** Whether the user typed or pasted the URL. A page of another site cannot cause this header value. */
const isTypedAddress = ({ headers }: Pick<IncomingMessage, 'headers'>) =>
  headers['sec-fetch-site'] === 'none' && headers['sec-fetch-mode'] === 'navigate'

/** Finds the user of a console session for a read-only request outside of `/api`; undefined without a valid session. */
export const createSessionUser =
  ({ bySession }: Pick<Deps['identify'], 'bySession'>) =>
  async (request: Pick<IncomingMessage, 'headers'>): Promise<number | undefined> => {
    const session = fastifyCookie.parse(request.headers.cookie ?? '')[SESSION_COOKIE]
    if (session === undefined || !(isTypedAddress(request) || isSameOrigin(request))) return undefined
    try {
      return (await bySession(session)).id
    } catch (error) {
      // An ended session has no user; a store that does not answer is an error.
      if (error instanceof Refusal) return undefined
      throw error
    }
  }
