import type { FastifyRequest } from 'fastify'
import { invalidField, UnreachableError } from '../../domain/errors.ts'
import { idempotencyConflict, parseIdempotencyKey, replay } from '../../domain/idempotency.ts'
import { isUniqueViolation, transact } from '../../store/engine/store.ts'
import { answerPlace, findAnswer, saveAnswer } from '../../store/records/idempotency.ts'
import type { Route } from '../contract/route.ts'
import { auditRecord } from './audit.ts'
import type { AuditNote, Changing } from './call.ts'
import type { Deps } from './deps.ts'

type Work = (changing: Changing) => Promise<unknown>
type Change = (work: Work) => Promise<unknown>
/** A stored response, wrapped in an object because null is a valid response. Stored rows have this member name. */
type Saved = { readonly told: unknown }

/** Another process committed a request with the same `Idempotency-Key` first, so this transaction is rolled back. */
function refuseSecondCommit(error: unknown): never {
  throw isUniqueViolation(error) ? idempotencyConflict('still-running') : error
}

/** Runs each write in one transaction, once per `Idempotency-Key` (docs/reference/management-api.md: Idempotency on writes). */
export function createChange({
  db,
  now,
  keyring,
  announce,
}: Pick<Deps, 'db' | 'now' | 'keyring' | 'announce'>) {
  const running = new Set<string>()

  function idempotencyOf(request: FastifyRequest, route: Route) {
    const { actor } = request.caller
    if (route.method === 'GET' || actor === undefined) return undefined
    const key = parseIdempotencyKey(request.headers['idempotency-key'], invalidField)
    if (key === undefined) return undefined
    const path = `${route.method} ${request.url.split('?')[0]?.replace(/\/+$/, '')}`
    return { userId: actor.id, path, key }
  }

  /** Runs the transaction of one call: the change, its audit records and, with an `Idempotency-Key`, the response. */
  const changeOf =
    (request: FastifyRequest, idempotency: ReturnType<typeof idempotencyOf>): Change =>
    async work => {
      let notes: AuditNote[] = []
      const announceNotes = () => announce(notes.map(({ target }) => target))
      const response = await transact(db, async trx => {
        notes = []
        const data = await work({
          trx,
          audit: note => {
            notes.push(note)
          },
        })
        if (idempotency) {
          const sealed = keyring.seal(
            JSON.stringify({ told: data } satisfies Saved),
            answerPlace(idempotency),
          )
          await saveAnswer(trx, idempotency, { bodyDigest: request.bodyDigest, sealed, now: now() }).catch(
            refuseSecondCommit,
          )
        }
        // Audit records come last, because they lock the audit chain for all other writers.
        for (const note of notes) await auditRecord(trx, request, note, now())
        return data
      }).catch(async error => {
        // The commit may have succeeded without an acknowledgement, so the caches are invalidated after this failure too.
        if (error instanceof UnreachableError && error.isOutcomeUnknown) await announceNotes()
        throw error
      })
      // Invalidates the caches of all workers before the response is sent, so that the next request sees the change.
      await announceNotes()
      return response
    }

  return {
    async runOncePerKey(request: FastifyRequest, route: Route, handle: (change: Change) => Promise<unknown>) {
      const idempotency = idempotencyOf(request, route)
      if (!idempotency) return handle(changeOf(request, undefined))
      const name = JSON.stringify([idempotency.userId, idempotency.path, idempotency.key])
      if (running.has(name)) throw idempotencyConflict('still-running')
      running.add(name)
      try {
        const first = await findAnswer(db, idempotency, now())
        if (!first) return await handle(changeOf(request, idempotency))
        const response: Saved = JSON.parse(keyring.open(first.answer_sealed, answerPlace(idempotency)))
        return replay({ bodyDigest: first.body_digest, response }, request.bodyDigest).told
      } finally {
        running.delete(name)
      }
    },
  }
}
