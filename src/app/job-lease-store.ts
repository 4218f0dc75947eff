import type { Db } from '../store/engine/store.ts'
import { readLease, releaseLease, replaceLease } from '../store/records/alert-states.ts'
import type { LeaseStore } from './job-lease.ts'

const LEASE = 'jobs'

/** The lease of the jobs in PostgreSQL. */
export const jobLeaseStore = (db: Db): LeaseStore => ({
  read: () => readLease(db, LEASE),
  replace: (previous, next) => replaceLease(db, LEASE, previous, next),
  release: holder => releaseLease(db, LEASE, holder),
})
