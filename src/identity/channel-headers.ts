import { NO_HEADERS } from '../domain/channel.ts'
import type { Keyring } from './keyring.ts'

const place = (channelId: number) => ({ table: 'channels', row: channelId, field: 'header_override' })

/** The header overrides of a channel may contain credentials: like its keys, they are encrypted at rest. */
export const sealHeaders = (keyring: Keyring, channelId: number, text: string): string =>
  text === NO_HEADERS ? text : keyring.seal(text, place(channelId))

type StoredHeaders = { readonly id: number; readonly header_override: string }

/** Decrypts headers. Plain JSON was stored by an older version; the next start encrypts it. */
export const openHeaders = (keyring: Keyring, { id, header_override: text }: StoredHeaders): string =>
  text.startsWith('{') ? text : keyring.open(text, place(id))
