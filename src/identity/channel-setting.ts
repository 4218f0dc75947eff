import { joinSetting, splitSetting } from '../domain/channel-network.ts'
import type { JsonObject } from '../domain/json-object.ts'
import type { Keyring } from './keyring.ts'

const place = (channelId: number) => ({ table: 'channels', row: channelId, field: 'setting' })

/** The columns of a channel's setting. `setting` has placeholders for the secrets in `setting_sealed`; '': there are none. */
type StoredSetting = { readonly setting: string; readonly setting_sealed: string }

const parse = (text: string) => JSON.parse(text) as JsonObject

/** Encrypts the credentials of a proxy and the key of a client certificate. The rest of a setting stays readable. */
export function sealSetting(keyring: Keyring, channelId: number, text: string): StoredSetting {
  const { open, secrets } = splitSetting(parse(text))
  if (Object.keys(secrets).length === 0) return { setting: text, setting_sealed: '' }
  return {
    setting: JSON.stringify(open),
    setting_sealed: keyring.seal(JSON.stringify(secrets), place(channelId)),
  }
}

/** The whole setting. Throws if its secrets cannot be decrypted. */
export const openSetting = (
  keyring: Keyring,
  { id, setting, setting_sealed }: StoredSetting & { readonly id: number },
): string =>
  setting_sealed === ''
    ? setting
    : JSON.stringify(joinSetting(parse(setting), parse(keyring.open(setting_sealed, place(id)))))
