import type { FastifyRequest } from 'fastify'
import { invalidField, UnreachableError } from '../../domain/errors.ts'
import { idempotencyConflict, parseIdempotencyKey, replay } from '../../domain/idempotency.ts'
import { CONFIRM_WITHIN_MS } from '../../domain/node.ts'
import { codePoints, hasControl } from '../../domain/text.ts'
import { isUniqueViolation, transact } from '../../store/engine/store.ts'
import { answerPlace, findAnswer, saveAnswer } from '../../store/records/idempotency.ts'
import { createConfigHistory } from '../config/history.ts'
import type { Route } from '../contract/route.ts'
import { auditRecord } from './audit.ts'
import type { AuditNote, Changing } from './call.ts'
import type { Deps } from './deps.ts'

type Work = (changing: Changing) => Promise<unknown>
type Change = (work: Work) => Promise<unknown>
/** A stored response, wrapped in an object because null is a valid response. Stored rows have this member name. */
type Saved = { readonly told: unknown }

/** Changes of something that a relay caches. */
const RELAY_TARGET = /^(token|user|channel|alias|price|canary|settings)\b/
/** Actions on such a target that do not change it: other machines need not confirm them. */
const READING_ACTION = /^(user\.(login|login_failed|logout)|\w+\.reveal)$/

const concernsRelay = ({ action, target }: AuditNote) =>
  RELAY_TARGET.test(target) && !READING_ACTION.test(action)

/** Another process committed a request with the same `Idempotency-Key` first, so this transaction is rolled back. */
function refuseSecondCommit(error: unknown): never {
  throw isUniqueViolation(error) ? idempotencyConflict('still-running') : error
}

const MAX_REASON = 200

/** The header has UTF-8 bytes, which Node.js reads as Latin-1. */
function reasonOf({ headers }: FastifyRequest): string {
  const header = headers['x-sluice-reason']
  if (header === undefined) return ''
  const text = Buffer.from(String(header), 'latin1').toString('utf8').trim()
  if (hasControl(text) || codePoints(text) > MAX_REASON)
    throw invalidField(
      'x-sluice-reason',
      `must have at most ${MAX_REASON} characters, without control characters`,
    )
  return text
}

/** The author of the revision that a change of the configuration writes. */
function revisionAuthor(request: FastifyRequest) {
  const { actor } = request.caller
  return {
    actor: actor ?? { id: 0, username: '' },
    via: actor ? `${actor.via}:${actor.credentialId}` : 'password',
    reason: reasonOf(request),
  }
}

/** Runs each write in one transaction, once per `Idempotency-Key` (docs/reference/management-api.md: Idempotency on writes). */
export function createChange({
  db,
  now,
  keyring,
  announce,
}: Pick<Deps, 'db' | 'now' | 'keyring' | 'announce'>) {
  const running = new Set<string>()
  const history = createConfigHistory({ keyring, now })

  function idempotencyOf(request: FastifyRequest, route: Route) {
    const { actor } = request.caller
    if (route.method === 'GET' || actor === undefined) return undefined
    const key = parseIdempotencyKey(request.headers['idempotency-key'], invalidField)
    if (key === undefined) return undefined
    const path = `${route.method} ${request.url.split('?')[0]?.replace(/\/+$/, '')}`
    return { userId: actor.id, path, key }
  }

  /** Runs the transaction of one call: the change, its audit records and, with an `Idempotency-Key`, the response. */
  const changeOf = (request: FastifyRequest, idempotency: ReturnType<typeof idempotencyOf>): Change => {
    const deadlineMs = performance.now() + CONFIRM_WITHIN_MS
    return async work => {
      let notes: AuditNote[] = []
      let records: string[] = []
      const announceNotes = async ({ isCommitted = true } = {}) => {
        // The number of a record that may be rolled back may be that of another change later.
        const targets = [...notes.map(({ target }) => target), ...(isCommitted ? records : [])]
        const withinMs = notes.some(concernsRelay) ? Math.max(1, deadlineMs - performance.now()) : 0
        const confirmation = await announce(targets, withinMs)
        if (confirmation.waiting.length > 0) request.confirmation = confirmation
      }
      const response = await transact(db, async trx => {
        notes = []
        records = []
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
        for (const note of notes) records.push(`audit:${await auditRecord(trx, request, note, now())}`)
        await history.record(
          trx,
          notes.map(({ target }) => target),
          revisionAuthor(request),
        )
        return data
      }).catch(async error => {
        // The commit may have succeeded without an acknowledgement, so the caches are invalidated after this failure too.
        if (error instanceof UnreachableError && error.isOutcomeUnknown)
          await announceNotes({ isCommitted: false })
        throw error
      })
      // Invalidates the caches of all workers before the response is sent, so that the next request sees the change.
      await announceNotes()
      return response
    }
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
        const saved = replay({ bodyDigest: first.body_digest, response }, request.bodyDigest)
        // The first response may have been a 202: a repeat shows whether all nodes have confirmed since.
        const confirmation = await announce([], CONFIRM_WITHIN_MS)
        if (confirmation.waiting.length > 0) request.confirmation = confirmation
        return saved.told
      } finally {
        running.delete(name)
      }
    },
  }
}
