import { hash } from 'node:crypto'
import type { Keyring } from './keyring.ts'
import { type DestinationColumns, isMove } from './secret-destination.ts'

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

/** A channel with decrypted headers and settings, and the digests of its keys. */
type ChannelWithSecrets = DestinationColumns & { readonly keyDigests: readonly string[] }

const secretsDigest = ({ keyDigests, header_override, setting }: ChannelWithSecrets): string =>
  hash('sha256', JSON.stringify([keyDigests, header_override, setting]))

const isMovedBy = (channel: ChannelWithSecrets, after: Columns) => isMove(channel, { ...channel, ...after })

/** What the new canary of a channel remembers, so that `mayApply` can decide later. */
export const movedSecrets = (
  channel: ChannelWithSecrets,
  after: Columns,
): Pick<StoredCanaryChanges, 'secrets'> =>
  isMovedBy(channel, after) ? { secrets: secretsDigest(channel) } : {}

/**
 * Whether the change of a canary may be applied to the channel as it is now. The administrator who started the canary could
 * send the secrets of that time to its destination. Secrets that were added later must not go there, nor if only a later change
 * of the channel made the destinations differ.
 */
export const mayApply = (channel: ChannelWithSecrets, { after, secrets }: StoredCanaryChanges): boolean =>
  !isMovedBy(channel, after) || secrets === secretsDigest(channel)

const place = (id: number) => ({ table: 'canaries', row: id, field: 'changes' })

/** The change of a canary may contain credentials, in headers and settings, so it is encrypted at rest. */
export const sealCanaryChanges = (keyring: Keyring, id: number, changes: StoredCanaryChanges): string =>
  keyring.seal(JSON.stringify(changes), place(id))

export const openCanaryChanges = (
  keyring: Keyring,
  { id, changes_sealed }: { readonly id: number; readonly changes_sealed: string },
): StoredCanaryChanges => JSON.parse(keyring.open(changes_sealed, place(id))) as StoredCanaryChanges
