import { createHash, randomUUID } from 'node:crypto'
import { type FirstRequest, parseIdempotencyKey, replay } from '../../domain/idempotency.ts'
import type { RelayIncoming } from '../../http/relay-exchange.ts'
import type { Keyring } from '../../identity/keyring.ts'
import { type Db, isUniqueViolation } from '../../store/engine/store.ts'
import {
  answerPlace,
  claimAnswer,
  dropAnswer,
  dropExpired,
  findAnswer,
  type Repeat,
  replaceAnswer,
} from '../../store/records/idempotency.ts'
import { badParameter } from '../operations/carry.ts'
import type { Form } from './form-content.ts'

/** A response as it was sent, to be replayed for the same key. */
export type StoredAnswer = { readonly status: number; readonly contentType: string; readonly body: Buffer }

/** The exclusive right to run the request with this key. */
export type Claim = {
  /**
   * Called before the request is settled and the response is complete, so that a paid response is never generated twice.
   * A failure stores nothing.
   */
  storeAnswer(answer: StoredAnswer | undefined): Promise<void>
  /** Releases the key unless a response is stored. */
  end(): Promise<void>
}

/** A larger response is not stored. A retry with the same key is then refused, not run again. */
export const MAX_STORED_BYTES = 16 * 1_048_576
/** No request runs this long, so the node that claimed the key has crashed. */
const STALE_S = 15 * 60

/** The content of the encrypted column. */
type StoredState =
  | { readonly pending: string; readonly boot: string; readonly claim?: string }
  | { readonly status: number; readonly type: string; readonly body: string }
  | { readonly isTooLarge: true }

export const idempotencyKeyOf = ({ headers }: RelayIncoming): string | undefined =>
  parseIdempotencyKey(headers['idempotency-key'], badParameter)

type Deps = {
  readonly db: Db
  readonly keyring: Keyring
  /** The id of this node, and of its process: a claim of an earlier process of the same node is abandoned. */
  readonly nodeId: string
  readonly boot: string
  now(): number
}

function responseOf(saved: StoredState): FirstRequest<StoredAnswer>['response'] {
  if ('pending' in saved) return 'still-running'
  if ('isTooLarge' in saved) return 'too-large'
  return { status: saved.status, contentType: saved.type, body: Buffer.from(saved.body, 'base64') }
}

/** Runs a request once per `Idempotency-Key` (docs/reference/relay-api.md: Idempotency on the relay). */
export function createIdempotentRequests({ db, keyring, nodeId, boot, now }: Deps) {
  const seal = (repeat: Repeat, saved: StoredState) =>
    keyring.seal(JSON.stringify(saved), answerPlace(repeat))

  const open = (repeat: Repeat, sealed: string): StoredState =>
    JSON.parse(keyring.open(sealed, answerPlace(repeat)))

  /** Undefined if the key is in use. */
  async function claim(repeat: Repeat, digest: string): Promise<Claim | undefined> {
    const id = randomUUID()
    const sealed = seal(repeat, { pending: nodeId, boot, claim: id })
    try {
      await claimAnswer(db, repeat, { bodyDigest: digest, sealed, now: now() })
      return claimOf(repeat, { id, sealed })
    } catch (error) {
      if (isUniqueViolation(error)) return undefined
      throw error
    }
  }

  const isAbandoned = (saved: StoredState, createdTime: number): boolean =>
    'pending' in saved && ((saved.pending === nodeId && saved.boot !== boot) || createdTime < now() - STALE_S)

  function claimOf(repeat: Repeat, { id, sealed }: { readonly id: string; readonly sealed: string }): Claim {
    let isConcluded = false

    /**
     * Changes the row only while it has this claim: if another process considered the claim abandoned, the key is no longer
     * its own. A rotation of the master secret may have sealed the claim again.
     */
    async function change(write: (sealed: string) => Promise<boolean>): Promise<void> {
      if (await write(sealed)) return
      const row = await findAnswer(db, repeat, now())
      const saved = row && open(repeat, row.answer_sealed)
      if (saved && 'claim' in saved && saved.claim === id) await write(row.answer_sealed)
    }

    const drop = () => change(own => dropAnswer(db, repeat, own))
    return {
      async storeAnswer(answer) {
        if (answer === undefined) {
          await drop()
          isConcluded = true
          return
        }
        const { status, contentType, body } = answer
        const saved: StoredState =
          body.length > MAX_STORED_BYTES
            ? { isTooLarge: true }
            : { status, type: contentType, body: body.toString('base64') }
        const to = seal(repeat, saved)
        await change(from => replaceAnswer(db, repeat, { from, to }))
        isConcluded = true
      },
      async end() {
        if (!isConcluded) await drop()
      },
    }
  }

  return {
    /** The stored response of the first request, or a claim to run this one. */
    async begin(repeat: Repeat, digest: string): Promise<StoredAnswer | Claim> {
      for (;;) {
        const own = await claim(repeat, digest)
        if (own) return own
        const first = await findAnswer(db, repeat, now())
        // The claim was released in the meantime, or has expired.
        if (!first) {
          await dropExpired(db, repeat, now())
          continue
        }
        const saved = open(repeat, first.answer_sealed)
        const isSameBody = first.body_digest === digest
        if (isSameBody && isAbandoned(saved, first.created_time)) {
          // Only the claim that was read: a concurrent retry may have replaced it by its own.
          await dropAnswer(db, repeat, first.answer_sealed)
          continue
        }
        return replay({ bodyDigest: first.body_digest, response: responseOf(saved) }, digest)
      }
    },
  }
}

export type IdempotentRequests = ReturnType<typeof createIdempotentRequests>

/** Two forms are equal if their fields and files are. Boundaries and part headers do not count. */
export async function digestOfForm({ fields, files }: Form): Promise<string> {
  const hash = createHash('sha256').update(JSON.stringify(fields))
  for (const { field, name, open } of files) {
    hash.update(JSON.stringify([field, name]))
    for await (const chunk of open()) hash.update(chunk as Buffer)
  }
  return hash.digest('hex')
}

export const digestOfBytes = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex')
