import { argon2, randomBytes, timingSafeEqual } from 'node:crypto'
import { promisify } from 'node:util'
import { createOnDemandThread } from '../host/on-demand-thread.ts'
import { programFile } from '../host/program-file.ts'
import type { BcryptJob } from './bcrypt-thread.ts'
import { createHashQueue, type Requester } from './hash-queue.ts'
import { isImportedHash } from './imported-hash.ts'

const hashArgon2 = promisify(argon2)

export type PasswordCost = { readonly memoryKib: number; readonly passes: number }
export const PASSWORD_COST: PasswordCost = { memoryKib: 19_456, passes: 2 }
const TAG_BYTES = 32

const derive = (password: string, nonce: Buffer, { memoryKib, passes }: PasswordCost) =>
  hashArgon2('argon2id', {
    message: password.normalize('NFKC'),
    nonce,
    memory: memoryKib,
    passes,
    parallelism: 1,
    tagLength: TAG_BYTES,
  })

const encode = ({ memoryKib, passes }: PasswordCost, nonce: Buffer, tag: Buffer) =>
  `$argon2id$v=19$m=${memoryKib},t=${passes},p=1$${nonce.toString('base64url')}$${tag.toString('base64url')}`

function decode(stored: string) {
  const match = /^\$argon2id\$v=19\$m=(\d+),t=(\d+),p=1\$([\w-]+)\$([\w-]+)$/.exec(stored)
  if (!match) return undefined
  const [, memory, passes, nonce, tag] = match
  return {
    cost: { memoryKib: Number(memory), passes: Number(passes) },
    nonce: Buffer.from(nonce ?? '', 'base64url'),
    tag: Buffer.from(tag ?? '', 'base64url'),
  }
}

const BCRYPT_HEAP_MB = 64
const BCRYPT_IDLE_MS = 60_000

/** bcrypt takes a tenth of a second in JavaScript, which must not delay other requests of this process. */
const createBcrypt = () =>
  createOnDemandThread<BcryptJob, boolean>({
    program: programFile('identity/bcrypt-thread'),
    maxHeapMb: BCRYPT_HEAP_MB,
    idleMs: BCRYPT_IDLE_MS,
    // The job that runs is rejected, and its sign-in fails with 500.
    onFailure() {},
  })

/**
 * argon2id with a bounded queue: it is the only expensive work that an anonymous caller can cause. The cost is that of new hashes;
 * each hash contains its own.
 */
export function createPasswords(cost = PASSWORD_COST) {
  const bounded = createHashQueue()
  let bcrypt: ReturnType<typeof createBcrypt> | undefined

  const hash = (password: string, requester: Requester) =>
    bounded(requester, async () => {
      const nonce = randomBytes(16)
      return encode(cost, nonce, await derive(password, nonce, cost))
    })

  /** Hashes even without a stored hash, so that the response time does not reveal whether a user exists. */
  const verify = (password: string, stored: string | undefined, requester: Requester) =>
    bounded(requester, async () => {
      if (stored !== undefined && isImportedHash(stored)) {
        bcrypt ??= createBcrypt()
        return bcrypt.run({ password, hash: stored })
      }
      const decoded = stored === undefined ? undefined : decode(stored)
      const nonce = decoded?.nonce ?? randomBytes(16)
      const tag = await derive(password, nonce, decoded?.cost ?? cost)
      return decoded !== undefined && decoded.tag.length === tag.length && timingSafeEqual(decoded.tag, tag)
    })

  return { hash, verify }
}

/** For the first start and for commands. */
export const OPERATOR: Requester = { name: 'operator', isKnown: true }

export const signedIn = ({ id }: { readonly id: number }): Requester => ({
  name: `user:${id}`,
  isKnown: true,
})

export type Passwords = ReturnType<typeof createPasswords>
