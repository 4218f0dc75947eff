import type { Batch } from '../../src/ledger/books.ts'
import type { PlantedBug } from './simulate.ts'

/**
 * Bugs of the protocol, each in what a node gets passed in. The product has no switches for them. `foundBy`: the first seed that
 * finds the bug.
 */
export const PLANTED_BUGS: Readonly<Record<string, PlantedBug & { readonly foundBy: number }>> = {
  'the fence is skipped': {
    foundBy: 36,
    wrap: parts => ({ ...parts, isFenced: () => false }),
  },
  'a lease request that was not acknowledged is executed again': {
    foundBy: 2,
    wrap(parts, world) {
      let repeats = 0
      return {
        ...parts,
        books: {
          ...parts.books,
          async lease(nodeId, account, want, number) {
            // A number that the store has not seen, so that it does not recognize the repetition.
            const granted = await parts.books.lease(nodeId, account, want, number + ++repeats * 1e-3)
            if (world.store.isRetired(nodeId)) return 0
            return granted
          },
        },
      }
    },
  },
  'a change is acknowledged before it is applied': {
    foundBy: 1,
    wrap: (parts, { store }) => ({
      ...parts,
      fleetStore: {
        ...parts.fleetStore,
        beat: beat => parts.fleetStore.beat({ ...beat, applied: store.state().changes.length }),
      },
    }),
  },
  'a returned lease stays in the lease of the node': {
    foundBy: 1,
    wrap: (parts, { store }) => ({
      ...parts,
      books: {
        ...parts.books,
        async returnLease(nodeId, account, amount, number) {
          await parts.books.returnLease(nodeId, account, amount, number)
          const lease = store.state().leases.get(`${nodeId} ${account.kind}:${account.ownerId}`)
          if (lease) lease.amount += amount
        },
      },
    }),
  },
  'the last journal record is dropped at a restart': {
    foundBy: 18,
    onRestart: disk => disk.loseLastCommit(),
  },
  'records of a retired node are accepted': {
    foundBy: 73,
    wrap: (parts, { store }) => ({
      ...parts,
      books: {
        ...parts.books,
        async reopenNode(nodeId, epoch, time) {
          const row = store.state().nodes.get(nodeId)
          if (row) row.epoch = Math.max(row.epoch, epoch)
          return parts.books.reopenNode(nodeId, epoch, time)
        },
      },
    }),
  },
  'windows of rate limits count by the system clock': {
    foundBy: 4,
    wrap: parts => ({ ...parts, rateClockMs: parts.clock.wallMs }),
  },
  'the lease of the jobs counts by the system clock': {
    foundBy: 32,
    wrap(parts) {
      let expired: Awaited<ReturnType<typeof parts.jobLeaseStore.read>>
      return {
        ...parts,
        jobLeaseStore: {
          ...parts.jobLeaseStore,
          async read() {
            const lease = await parts.jobLeaseStore.read()
            const isExpired = lease !== undefined && lease.untilTime * 1_000 < parts.clock.wallMs()
            expired = isExpired ? lease : undefined
            return isExpired ? undefined : lease
          },
          replace: (previous, next) => parts.jobLeaseStore.replace(previous ?? expired, next),
        },
      }
    },
  },
  'a batch that was not acknowledged is applied again from another position': {
    foundBy: 1,
    wrap: (parts, { store }) => ({
      ...parts,
      books: {
        ...parts.books,
        apply(nodeId: string, batch: Batch) {
          const afterLsn = store.state().nodes.get(nodeId)?.appliedLsn ?? 0
          const lastLsn = Math.max(batch.lastLsn, afterLsn + 1)
          return parts.books.apply(nodeId, { ...batch, afterLsn, lastLsn })
        },
      },
    }),
  },
  'a read does not wait for other nodes': {
    foundBy: 22,
    wrap: parts => ({ ...parts, othersCaughtUp: () => true }),
  },
  'a request is refused without the idle leases of other nodes': {
    foundBy: 1,
    wrap: parts => ({ ...parts, hasOthers: async () => false }),
  },
  'what a standby has lost is not read from the journal': {
    foundBy: 27,
    wrap(parts) {
      let appliedLsn = 0
      return {
        ...parts,
        books: {
          ...parts.books,
          async apply(nodeId: string, batch: Batch) {
            await parts.books.apply(nodeId, batch)
            appliedLsn = batch.lastLsn
          },
          async reopenNode(nodeId, epoch, time) {
            const position = await parts.books.reopenNode(nodeId, epoch, time)
            return { appliedLsn: Math.max(position.appliedLsn, appliedLsn) }
          },
        },
      }
    },
  },
  'a node whose registration is lost does not register again': {
    foundBy: 27,
    wrap: parts => ({ ...parts, fleetStore: { ...parts.fleetStore, join: async () => undefined } }),
  },
  'a node sends its health once, and never again': {
    foundBy: 10,
    wrap: parts => ({
      ...parts,
      haveReceived: () => true,
      fleetStore: {
        ...parts.fleetStore,
        notify: notice => ('call' in notice ? Promise.resolve() : parts.fleetStore.notify(notice)),
      },
    }),
  },
}
