type Holder = { readonly owner: object; enter(): void }

/** Locks by name for several owners, in order of arrival; an owner that is gone holds and waits for nothing. */
export function createLocks() {
  const queues = new Map<string, Holder[]>()

  function remove(name: string, isGone: (holder: Holder, place: number) => boolean): void {
    const queue = queues.get(name)
    if (!queue) return
    const first = queue[0]
    const left = queue.filter((holder, place) => !isGone(holder, place))
    if (left.length === 0) {
      queues.delete(name)
      return
    }
    queues.set(name, left)
    if (left[0] !== first) left[0]?.enter()
  }

  return {
    /** Resolves when the lock is the owner's. */
    enter: (name: string, owner: object) =>
      new Promise<void>(resolve => {
        const queue = queues.get(name) ?? []
        queues.set(name, queue)
        queue.push({ owner, enter: resolve })
        if (queue.length === 1) resolve()
      }),
    /** The owner that has the lock gives it up; somebody else's is left alone. */
    leave: (name: string, owner: object) =>
      remove(name, (holder, place) => place === 0 && holder.owner === owner),
    forget(owner: object): void {
      for (const name of [...queues.keys()]) remove(name, holder => holder.owner === owner)
    },
    size: () => queues.size,
  }
}
