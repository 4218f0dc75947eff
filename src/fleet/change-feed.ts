import type { FleetStore } from './fleet.ts'

const READ_AT_ONCE = 500
/** Positions that this machine applied without the feed. Older ones are forgotten; the feed then applies them once more. */
const MAX_KNOWN = 10_000

type ChangeFeedDeps = {
  readonly store: Pick<FleetStore, 'changesAfter' | 'acknowledge'>
  /** Makes the caches reflect the current state of these targets. */
  invalidate(targets: readonly string[]): Promise<void>
}

/** Applies the changes of all machines to the caches of this node, in order (docs/adr/0023-nodes-heartbeats-and-fences.md). */
export function createChangeFeed({ store, invalidate }: ChangeFeedDeps) {
  let applied = 0
  const ownPositions = new Set<number>()
  let running: Promise<void> | undefined

  function skipKnown(): void {
    while (ownPositions.delete(applied + 1)) applied += 1
  }

  async function readUpTo(position: number): Promise<void> {
    skipKnown()
    while (applied < position) {
      const changes = await store.changesAfter(applied, READ_AT_ONCE)
      const last = changes.at(-1)
      if (!last) throw new Error(`there is no change after ${applied}, but the position is ${position}`)
      await invalidate(changes.filter(({ seq }) => !ownPositions.has(seq)).map(({ target }) => target))
      applied = last.seq
      for (const { seq } of changes) ownPositions.delete(seq)
      skipKnown()
    }
  }

  return {
    applied: () => applied,
    /** Everything that the node reads from now on includes the changes up to this position. */
    start(position: number): void {
      applied = position
      ownPositions.clear()
    },
    /** Changes that were made on this machine. Their caches are invalidated through the supervisor. */
    note(positions: readonly number[]): void {
      for (const position of positions)
        if (position > applied && ownPositions.size < MAX_KNOWN) ownPositions.add(position)
      skipKnown()
    },
    /** Resolves when all changes up to this position are applied. */
    async catchUp(position: number): Promise<void> {
      while (applied < position) {
        running ??= readUpTo(position).finally(() => {
          running = undefined
        })
        await running
      }
    },
    acknowledge: () => store.acknowledge(applied),
  }
}

export type ChangeFeed = ReturnType<typeof createChangeFeed>
