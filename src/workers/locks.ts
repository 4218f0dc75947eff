type Holder = { readonly owner: object; enter(): void }

/** Named locks for several owners, granted in order of arrival. */
export function createLocks() {
  const queues = new Map<string, Holder[]>()

  function remove(name: string, isGone: (holder: Holder, place: number) => boolean): void {
    const queue = queues.get(name)
    if (!queue) return
    const first = queue[0]
    const remaining = queue.filter((holder, place) => !isGone(holder, place))
    if (remaining.length === 0) {
      queues.delete(name)
      return
    }
    queues.set(name, remaining)
    if (remaining[0] !== first) remaining[0]?.enter()
  }

  return {
    /** Resolves when the owner has the lock. */
    enter: (name: string, owner: object) =>
      new Promise<void>(resolve => {
        const queue = queues.get(name) ?? []
        queues.set(name, queue)
        queue.push({ owner, enter: resolve })
        if (queue.length === 1) resolve()
      }),
    /** Releases the lock if the owner has it. */
    leave: (name: string, owner: object) =>
      remove(name, (holder, place) => place === 0 && holder.owner === owner),
    /** Releases every lock of an owner that has ended, and removes it from all queues. */
    releaseAll(owner: object): void {
      for (const name of [...queues.keys()]) remove(name, holder => holder.owner === owner)
    },
    size: () => queues.size,
  }
}
