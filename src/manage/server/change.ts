import type { FastifyRequest } from 'fastify'
import { invalidField, Refusal, UnreachableError } from '../../domain/errors.ts'
import { isUniqueViolation, transact } from '../../store/engine/store.ts'
import { answerPlace, findAnswer, saveAnswer } from '../../store/records/idempotency.ts'
import type { Route } from '../contract/route.ts'
import { auditRecord } from './audit.ts'
import type { AuditNote, Changing } from './call.ts'
import type { Deps } from './deps.ts'

type Work = (changing: Changing) => Promise<unknown>
type Change = (work: Work) => Promise<unknown>

const MAX_KEY = 255
const STILL_RUNNING = 'the first request with this Idempotency-Key is still running'
const conflict = (message: string) => new Refusal('idempotency_conflict', message)

/** Another process was asked the same and ended first: its change stands, this one is undone. */
function stillRuns(error: unknown): never {
  throw isUniqueViolation(error) ? conflict(STILL_RUNNING) : error
}

/**
 * A write is one transaction, done once for an `Idempotency-Key`
 * (docs/reference/management-api.md: Idempotency on writes).
 */
export function createChange({
  db,
  now,
  keyring,
  announce,
}: Pick<Deps, 'db' | 'now' | 'keyring' | 'announce'>) {
  const running = new Set<string>()

  function repeatOf(request: FastifyRequest, route: Route) {
    const key = request.headers['idempotency-key']
    const { actor } = request.caller
    if (route.method === 'GET' || actor === undefined || key === undefined) return undefined
    if (Array.isArray(key) || key.length > MAX_KEY || !/^[\x21-\x7e]+$/.test(key))
      throw invalidField('Idempotency-Key', `must be 1 to ${MAX_KEY} printable characters without spaces`)
    const path = `${route.method} ${request.url.split('?')[0]?.replace(/\/+$/, '')}`
    return { userId: actor.id, path, key }
  }

  /** The transaction of one call: the change, its audit record and, for a repeatable call, the answer. */
  const changeOf =
    (request: FastifyRequest, repeat: ReturnType<typeof repeatOf>): Change =>
    async work => {
      let notes: AuditNote[] = []
      const announceNotes = () => announce(notes.map(({ target }) => target))
      const told = await transact(db, async trx => {
        notes = []
        const told = await work({
          trx,
          audit: note => {
            notes.push(note)
          },
        })
        if (repeat) {
          // In an object, because null is an answer and no answer is another.
          const sealed = keyring.seal(JSON.stringify({ told }), answerPlace(repeat))
          await saveAnswer(trx, repeat, { bodyDigest: request.bodyDigest, sealed, now: now() }).catch(
            stillRuns,
          )
        }
        // Last, because the audit chain admits one writer at a time.
        for (const note of notes) await auditRecord(trx, request, note, now())
        return told
      }).catch(async error => {
        // Nobody heard whether it was kept: the relay must look for itself, now or when the store is back.
        if (error instanceof UnreachableError && error.isOutcomeUnknown) await announceNotes()
        throw error
      })
      // Takes effect before the 200 is out: the next request on any connection sees it.
      await announceNotes()
      return told
    }

  return {
    async repeatable(request: FastifyRequest, route: Route, handle: (change: Change) => Promise<unknown>) {
      const repeat = repeatOf(request, route)
      if (!repeat) return handle(changeOf(request, undefined))
      const name = JSON.stringify([repeat.userId, repeat.path, repeat.key])
      if (running.has(name)) throw conflict(STILL_RUNNING)
      running.add(name)
      try {
        const saved = await findAnswer(db, repeat, now())
        if (!saved) return await handle(changeOf(request, repeat))
        if (saved.body_digest !== request.bodyDigest)
          throw conflict('this Idempotency-Key was used with another body; use a new key')
        return JSON.parse(keyring.open(saved.answer_sealed, answerPlace(repeat))).told
      } finally {
        running.delete(name)
      }
    },
  }
}
