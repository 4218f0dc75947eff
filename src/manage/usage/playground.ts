import { notFound } from '../../domain/errors.ts'
import { NO_TOKEN } from '../../domain/token.ts'
import { findToken } from '../../store/records/tokens.ts'
import type { playgroundContract } from '../contract/playground.ts'
import type { Handlers } from '../server/call.ts'
import type { Deps } from '../server/deps.ts'

const PREFIX = '/api/playground'

/** Identifies the caller, and leaves everything else to the relay. */
export function createPlaygroundHandlers({ db, relayFor }: Deps): Handlers<typeof playgroundContract> {
  return {
    playground: async ({ actor, query, reply }) => {
      const { token_id: tokenId = NO_TOKEN } = query
      if (tokenId !== NO_TOKEN && !(await findToken(db, actor.id, tokenId))) throw notFound('token')
      const { raw } = reply.request
      const path = (raw.url ?? '').replace(/\?.*/s, '').replace(/\/{2,}/g, '/')
      reply.hijack()
      relayFor({
        request: raw,
        response: reply.raw,
        path: path.slice(PREFIX.length),
        person: { userId: actor.id, tokenId },
      })
      return undefined
    },
  }
}
