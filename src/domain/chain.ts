import { hash } from 'node:crypto'

/** What the first link of every chain follows. */
export const GENESIS = '0'.repeat(64)

/**
 * A link of a hash chain: the digest of the link before it and of the record's own fields, in a fixed order.
 * Whoever changes or removes a record in the middle breaks every link after it.
 */
export const link = (previous: string, fields: readonly (string | number | null)[]) =>
  hash('sha256', previous + JSON.stringify(fields), 'hex')
