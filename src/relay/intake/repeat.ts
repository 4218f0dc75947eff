import { createHash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { Refusal } from '../../domain/errors.ts'
import type { Keyring } from '../../identity/keyring.ts'
import { type Db, isUniqueViolation } from '../../store/engine/store.ts'
import {
  answerPlace,
  claimAnswer,
  dropAnswer,
  findAnswer,
  type Repeat,
  replaceAnswer,
} from '../../store/records/idempotency.ts'
import type { Form } from './form.ts'

/** An answer as it went out, for whoever asks the same again. */
export type StoredAnswer = { readonly status: number; readonly contentType: string; readonly body: Buffer }

/** A request that may be repeated, while it runs: nobody else runs it. */
export type Claim = {
  /**
   * Called before the books are closed and the client hears: an answer that is paid for is never made twice, and of a
   * failure nothing is kept.
   */
  keep(answer: StoredAnswer | undefined): Promise<void>
  /** Lets the key go where nothing was kept. */
  end(): Promise<void>
}

const MAX_KEY = 255
/** An answer beyond this is not kept; asking again is refused rather than done again. */
export const MAX_STORED_BYTES = 16 * 1_048_576
/** No request runs so long: whoever claimed the key is gone. */
const STALE_S = 15 * 60

/** What stands in the store, sealed. */
type Saved =
  | { readonly pending: string; readonly boot: string }
  | { readonly status: number; readonly type: string; readonly body: string }
  | { readonly isTooLarge: true }

const conflict = (message: string) => new Refusal('idempotency_conflict', message)

export function keyOf({ headers }: IncomingMessage): string | undefined {
  const key = headers['idempotency-key']
  if (key === undefined) return undefined
  if (Array.isArray(key) || key.length > MAX_KEY || !/^[\x21-\x7e]+$/.test(key)) {
    const message = `must be 1 to ${MAX_KEY} printable characters without spaces`
    throw new Refusal('invalid_parameter', `Idempotency-Key ${message}`, {
      errors: [{ path: 'Idempotency-Key', message }],
    })
  }
  return key
}

type Deps = {
  readonly db: Db
  readonly keyring: Keyring
  /** This node, and this run of it: what an earlier run left unfinished is nobody's any more. */
  readonly nodeId: string
  readonly boot: string
  now(): number
}

/** Requests that are done once for an `Idempotency-Key` (docs/reference/relay-api.md: Idempotency on the relay). */
export function createIdempotentRequests({ db, keyring, nodeId, boot, now }: Deps) {
  const seal = (repeat: Repeat, saved: Saved) => keyring.seal(JSON.stringify(saved), answerPlace(repeat))

  async function claim(repeat: Repeat, digest: string): Promise<boolean> {
    const sealed = seal(repeat, { pending: nodeId, boot })
    try {
      await claimAnswer(db, repeat, { bodyDigest: digest, sealed, now: now() })
      return true
    } catch (error) {
      if (isUniqueViolation(error)) return false
      throw error
    }
  }

  const isLeft = (saved: Saved, createdTime: number): boolean =>
    'pending' in saved && ((saved.pending === nodeId && saved.boot !== boot) || createdTime < now() - STALE_S)

  function claimOf(repeat: Repeat): Claim {
    let isKept = false
    return {
      async keep(answer) {
        isKept = true
        if (answer === undefined) return dropAnswer(db, repeat)
        const { status, contentType, body } = answer
        const saved: Saved =
          body.length > MAX_STORED_BYTES
            ? { isTooLarge: true }
            : { status, type: contentType, body: body.toString('base64') }
        await replaceAnswer(db, repeat, seal(repeat, saved))
      },
      async end() {
        if (!isKept) await dropAnswer(db, repeat)
      },
    }
  }

  return {
    /** What was answered before, or the right to answer now. */
    async begin(repeat: Repeat, digest: string): Promise<StoredAnswer | Claim> {
      for (;;) {
        if (await claim(repeat, digest)) return claimOf(repeat)
        const existing = await findAnswer(db, repeat, now())
        // It was let go in between, or has lived its day.
        if (!existing) {
          await dropAnswer(db, repeat, now())
          continue
        }
        if (existing.body_digest !== digest)
          throw conflict('this Idempotency-Key was used with another body; use a new key')
        const saved = JSON.parse(keyring.open(existing.answer_sealed, answerPlace(repeat))) as Saved
        if (isLeft(saved, existing.created_time)) {
          await dropAnswer(db, repeat)
          continue
        }
        if ('pending' in saved) throw conflict('the first request with this Idempotency-Key is still running')
        if ('isTooLarge' in saved)
          throw conflict('the answer to this Idempotency-Key was too large to be kept; use a new key')
        return {
          status: saved.status,
          contentType: saved.type,
          body: Buffer.from(saved.body, 'base64'),
        }
      }
    },
  }
}

export type IdempotentRequests = ReturnType<typeof createIdempotentRequests>

/** Two forms are the same if their fields and files are, whatever stands between the parts. */
export async function digestOfForm({ fields, files }: Form): Promise<string> {
  const hash = createHash('sha256').update(JSON.stringify(fields))
  for (const { field, name, open } of files) {
    hash.update(JSON.stringify([field, name]))
    for await (const chunk of open()) hash.update(chunk as Buffer)
  }
  return hash.digest('hex')
}

export const digestOfBytes = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex')
