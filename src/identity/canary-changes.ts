import { hash } from 'node:crypto'
import type { Keyring } from './keyring.ts'

type Columns = Readonly<Record<string, string | number | null>>

/**
 * The columns that a canary changes, as they were at its start and as it has them; of a shadow price, `price` as JSON. Header
 * overrides are in plain text here: the whole change is sealed.
 */
export type StoredCanaryChanges = {
  readonly before: Columns
  readonly after: Columns
  /** For a change that sends the secrets of the channel elsewhere: the digest of those secrets at the start. */
  readonly secrets?: string
}

type ChannelSecretColumns = {
  readonly keyDigests: readonly string[]
  /** Decrypted. */
  readonly headers: string
  readonly setting: string
}

/**
 * The administrator who started the canary could send these secrets to its destination. Secrets that are added to the channel
 * later must not go there, so the relay compares the digest.
 */
export const secretsDigest = ({ keyDigests, headers, setting }: ChannelSecretColumns): string =>
  hash('sha256', JSON.stringify([keyDigests, headers, setting]))

const place = (id: number) => ({ table: 'canaries', row: id, field: 'changes' })

/** The change of a canary may contain credentials, in headers and settings, so it is encrypted at rest. */
export const sealCanaryChanges = (keyring: Keyring, id: number, changes: StoredCanaryChanges): string =>
  keyring.seal(JSON.stringify(changes), place(id))

export const openCanaryChanges = (
  keyring: Keyring,
  { id, changes_sealed }: { readonly id: number; readonly changes_sealed: string },
): StoredCanaryChanges => JSON.parse(keyring.open(changes_sealed, place(id))) as StoredCanaryChanges
