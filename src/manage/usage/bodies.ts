import type { Actor } from '../../domain/actor.ts'
import type { KeptSide } from '../../domain/body-log.ts'
import { type ExchangeBytes, findPaged, readExchange } from '../../domain/body-page.ts'
import { notFound, Refusal } from '../../domain/errors.ts'
import { isAdmin, ROLE } from '../../domain/role.ts'
import { type BodySeal, bodyPlace, pagePlace } from '../../identity/body-seal.ts'
import { SealError } from '../../identity/keyring.ts'
import { findBody, type StoredBody } from '../../store/usage/bodies.ts'
import type { bodyContract } from '../contract/bodies.ts'
import type { Handlers } from '../server/call.ts'
import type { Deps } from '../server/deps.ts'
import { untilWritten } from './request-rows.ts'

type OpenedBody = ExchangeBytes & { readonly tokenId: number }

function openStored(seal: BodySeal, storedBody: StoredBody, requestId: string): OpenedBody {
  if ('row' in storedBody) {
    const bytes = seal.open(bodyPlace(requestId), storedBody.row.content)
    return { ...readExchange(bytes), tokenId: storedBody.row.token_id }
  }
  const place = pagePlace(storedBody.page)
  const body = findPaged(seal.open(place, storedBody.page.content), requestId)
  if (!body) throw new SealError(`${place} does not have the bodies of ${requestId}`)
  return { ...body, tokenId: body.exchange.token_id }
}

/** The bodies of a request. Only its owner and Root may read them; an administrator learns that there are some. */
export async function openBody(
  { db, bodySeal }: Pick<Deps, 'db' | 'bodySeal'>,
  requestId: string,
  actor: Actor,
) {
  const storedBody = await untilWritten(requestId, () => findBody(db, requestId))
  const row = storedBody && ('row' in storedBody ? storedBody.row : storedBody.page)
  const isOwn = row?.user_id === actor.id
  if (!row || (!isOwn && !isAdmin(actor))) throw notFound('body')
  if (!isOwn && actor.role !== ROLE.root)
    throw new Refusal('forbidden', 'Only the owner of a request and Root can read its body.')
  const { user_id, created_time } = row
  return { user_id, created_time, ...openStored(bodySeal, storedBody, requestId) }
}

const sideOf = ({ type, size, is_truncated, is_masked }: KeptSide, bytes: Buffer) => ({
  content_type: type,
  size,
  text: bytes.length === 0 && size > 0 ? null : bytes.toString('utf8'),
  is_truncated,
  is_masked,
})

/** The bodies of requests (docs/operating/bodies.md: Reading a body). */
export function createBodyHandlers(deps: Deps): Handlers<typeof bodyContract> {
  return {
    getBody: async ({ actor, params, change }) => {
      const { request_id } = params
      const { user_id, created_time, tokenId, exchange, request, answer } = await openBody(
        deps,
        request_id,
        actor,
      )
      const { path, model, status } = exchange
      const { parts } = exchange.request
      return change(async ({ audit }) => {
        audit({ action: 'body.view', target: `request:${request_id}`, after: { user_id } })
        return {
          request_id,
          user_id,
          token_id: tokenId,
          created_time,
          path,
          model,
          status,
          request: {
            ...sideOf(exchange.request, request),
            ...(parts && { text: null }),
            parts: [...(parts ?? [])],
          },
          answer: sideOf(exchange.answer, answer),
        }
      })
    },
  }
}
