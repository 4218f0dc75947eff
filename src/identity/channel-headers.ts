import { NO_HEADERS } from '../domain/channel.ts'
import type { Keyring } from './keyring.ts'

const place = (channelId: number) => ({ table: 'channels', row: channelId, field: 'header_override' })

/** The headers an administrator gives a channel may be credentials: like its keys, they rest sealed. */
export const sealHeaders = (keyring: Keyring, channelId: number, text: string): string =>
  text === NO_HEADERS ? text : keyring.seal(text, place(channelId))

type Stored = { readonly id: number; readonly header_override: string }

/** What is not sealed yet begins like the object it is; the next start seals it. */
export const openHeaders = (keyring: Keyring, { id, header_override: text }: Stored): string =>
  text.startsWith('{') ? text : keyring.open(text, place(id))
