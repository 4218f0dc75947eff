import type { Actor } from '../../domain/actor.ts'
import type { KeptExchange } from '../../domain/body-log.ts'
import { Refusal } from '../../domain/errors.ts'
import { usdText } from '../../domain/money.ts'
import { isAdmin } from '../../domain/role.ts'
import { NO_TOKEN } from '../../domain/token.ts'
import { callListener } from '../../http/loopback.ts'
import type { LogWithNames } from '../../store/usage/logs.ts'
import { editTopLevel } from '../../wire/json-edit.ts'
import type { replayContract } from '../contract/replay.ts'
import type { Handlers } from '../server/call.ts'
import type { Deps } from '../server/deps.ts'
import { textOfAnswer } from './answer-text.ts'
import { openBody } from './bodies.ts'
import { rowsOfRequest, untilWritten } from './request-rows.ts'

/** A request that can be sent again. */
export type SavedRequest = { readonly path: string; readonly model: string; readonly body: Buffer }

export type Destination = {
  readonly model?: string | undefined
  readonly channel_id?: number | undefined
}

/** The tag of requests that are sent again. */
const REPLAY_TAG = 'replay'

const MODEL_IN_PATH = /^(\/v1(?:beta)?\/models\/)[^:]+(:.*)$/

/** The request for another model, which its path or its body names. */
export function requestFor({ path, body, model }: SavedRequest, other: string | undefined): SavedRequest {
  if (other === undefined || other === model) return { path, body, model }
  const newPath = path.replace(MODEL_IN_PATH, (_whole, before: string, after: string) => {
    return `${before}${encodeURIComponent(other)}${after}`
  })
  if (newPath !== path) return { path: newPath, body, model: other }
  return { path, body: editTopLevel(body, { model: other }), model: other }
}

/** Only administrators know channels. */
export function mustMayChoose(actor: Actor, { channel_id }: Destination): void {
  if (channel_id === undefined || isAdmin(actor)) return
  const message = 'can be chosen by administrators only'
  throw new Refusal('forbidden', `channel_id ${message}`, { errors: [{ path: 'channel_id', message }] })
}

/** The figures of a request in its log row. */
const figuresOf = (row: LogWithNames | undefined) => ({
  prompt_tokens: row?.prompt_tokens ?? 0,
  completion_tokens: row?.completion_tokens ?? 0,
  cost: usdText(row?.cost ?? 0),
})

const firstMsIn = (row: LogWithNames | undefined): number | null => {
  const { frt } = JSON.parse(row?.other ?? '{}') as { frt?: unknown }
  return typeof frt === 'number' ? frt : null
}

/** A kept request as it can be sent again. */
export function savedRequestOf(exchange: KeptExchange, request: Buffer): SavedRequest {
  if (exchange.request.parts)
    throw new Refusal('conflict', 'Files are not kept, so this request cannot be sent again.')
  if (exchange.request.is_truncated)
    throw new Refusal('conflict', 'Only a part of this request is kept, so it cannot be sent again.')
  return { path: exchange.path, model: exchange.model, body: request }
}

type SendDeps = Pick<Deps, 'db' | 'engine' | 'ledger' | 'relayFor'>

/** Sends a request again, charged to the actor, and reads what it cost. */
export const createResend =
  ({ db, engine, ledger, relayFor }: SendDeps) =>
  async (saved: SavedRequest, to: Destination, { actor, address }: { actor: Actor; address: string }) => {
    const { path, body, model } = requestFor(saved, to.model)
    const person = { userId: actor.id, tokenId: NO_TOKEN, channelId: to.channel_id }
    const sent = await callListener((request, response) => relayFor({ request, response, path, person }), {
      path,
      headers: { 'content-type': 'application/json', 'x-sluice-tags': `${REPLAY_TAG}=true` },
      body,
      address,
    })
    const requestId = sent.headers['x-request-id'] ?? ''
    await ledger.catchUp({ kind: 'user', ownerId: actor.id })
    const rows = await untilWritten(requestId, () => rowsOfRequest({ db, engine }, requestId, actor.id))
    return {
      request_id: requestId,
      status: sent.status,
      answer: textOfAnswer(path, { type: sent.headers['content-type'] ?? '', body: sent.body }),
      ...figuresOf(rows?.[0]),
      ms: sent.ms,
      first_ms: sent.firstMs,
      model,
      channel_id: isAdmin(actor) ? (rows?.[0].channel_id ?? null) : null,
    }
  }

/** Sends kept requests again (docs/operating/bodies.md: Replay). */
export function createReplayHandlers(deps: Deps): Handlers<Pick<typeof replayContract, 'replay'>> {
  const { db, engine, ledger } = deps
  const resend = createResend(deps)
  return {
    replay: async ({ actor, address, body, change }) => {
      mustMayChoose(actor, body)
      const { user_id, exchange, request, answer } = await openBody(deps, body.request_id, actor)
      const saved = savedRequestOf(exchange, request)
      const replayed = await resend(saved, body, { actor, address })
      await ledger.catchUp({ kind: 'user', ownerId: user_id })
      const [original] = (await rowsOfRequest({ db, engine }, body.request_id, user_id)) ?? []
      return change(async ({ audit }) => {
        const { request_id, model, channel_id } = replayed
        const target = `request:${body.request_id}`
        audit({ action: 'body.replay', target, after: { request_id, model, channel_id } })
        return {
          ...replayed,
          original: {
            request_id: body.request_id,
            status: exchange.status,
            answer: textOfAnswer(exchange.path, { type: exchange.answer.type, body: answer }),
            ...figuresOf(original),
            ms: original?.use_time_ms ?? 0,
            first_ms: firstMsIn(original),
            model: exchange.model,
          },
        }
      })
    },
  }
}
