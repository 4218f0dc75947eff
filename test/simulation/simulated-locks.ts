import type { VirtualTime } from './virtual-time.ts'

/** The server notices after at most this long that the connection of a client has broken. */
const NOTICE_MS = 2_000

/** Advisory locks of the store: they belong to a connection. */
export function createSimulatedLocks(time: VirtualTime, random: () => number) {
  const owners = new Map<string, { readonly session: number; count: number }>()
  let sessions = 0

  function release(session: number): void {
    for (const [name, owner] of owners) if (owner.session === session) owners.delete(name)
  }

  return {
    openSession: () => ++sessions,
    tryLock(session: number, name: string): boolean {
      const owner = owners.get(name)
      if (owner && owner.session !== session) return false
      owners.set(name, { session, count: (owner?.count ?? 0) + 1 })
      return true
    },
    unlock(session: number, name: string): void {
      const owner = owners.get(name)
      if (owner?.session !== session) return
      owner.count -= 1
      if (owner.count === 0) owners.delete(name)
    },
    /** The connection has broken: the server releases its locks when it notices. */
    breakSession: (session: number) => void time.after(random() * NOTICE_MS, () => release(session)),
    /** A failover breaks all connections. */
    releaseAll: () => owners.clear(),
  }
}

export type SimulatedLocks = ReturnType<typeof createSimulatedLocks>
