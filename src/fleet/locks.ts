import { UnreachableError } from '../domain/errors.ts'
import { SILENT_CONNECTION_MS } from '../domain/node.ts'
import type { FleetClock } from './fleet.ts'

type FleetLocksDeps = {
  readonly clock: FleetClock
  random(): number
  /** Takes a lock of the store that all machines share, if it is free. The store releases it with the connection. */
  tryLock(name: string): Promise<boolean>
  unlock(name: string): Promise<void>
  /** Numbers the connections that locks are taken through. It changes when a connection is replaced. */
  connection(): number
}

/** A lock of the store, while its work runs. */
export type FleetLock = {
  /** Throws if the store may have released the lock with its connection: another machine may have it. */
  mustStillHold(): void
}

const TRY_EVERY_MS = 15
const GIVE_UP_MS = 900

/** Locks that all machines share. Within this process they are granted in order of arrival. */
export function createFleetLocks({ clock, random, tryLock, unlock, connection }: FleetLocksDeps) {
  const last = new Map<string, Promise<void>>()

  /** Resolves to the time of the statement that took the lock. */
  async function lockInStore(name: string): Promise<number> {
    const startMs = clock.monotonicMs()
    for (;;) {
      const sentMs = clock.monotonicMs()
      if (await tryLock(name)) return sentMs
      if (clock.monotonicMs() - startMs > GIVE_UP_MS)
        throw new UnreachableError(new Error(`the lock "${name}" is in use by another machine`))
      await clock.wait(TRY_EVERY_MS * (0.5 + random()))
    }
  }

  async function runLocked<T>(name: string, work: (lock: FleetLock) => Promise<T>): Promise<T> {
    const lockedMs = await lockInStore(name)
    const lockedThrough = connection()
    try {
      return await work({
        mustStillHold() {
          // After a pause of the process, it may not know yet that its connection was ended.
          const isOld = clock.monotonicMs() - lockedMs >= SILENT_CONNECTION_MS
          if (isOld || connection() !== lockedThrough)
            throw new UnreachableError(new Error(`the lock "${name}" was lost with its connection`))
        },
      })
    } finally {
      // If the connection has broken, the store has released the lock.
      await unlock(name).catch(() => {})
    }
  }

  return {
    async exclusively<T>(name: string, work: (lock: FleetLock) => Promise<T>): Promise<T> {
      const previous = last.get(name)
      const { promise, resolve } = Promise.withResolvers<void>()
      last.set(name, promise)
      try {
        await previous
        return await runLocked(name, work)
      } finally {
        resolve()
        if (last.get(name) === promise) last.delete(name)
      }
    },
  }
}
