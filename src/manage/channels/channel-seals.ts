import { KEY_STATUS } from '../../domain/channel-key.ts'
import { Refusal } from '../../domain/errors.ts'
import { mask } from '../../domain/text.ts'
import { SealError } from '../../identity/keyring.ts'
import type { ChannelKeyRow } from '../../store/engine/schema.ts'
import type { Trx } from '../../store/engine/store.ts'
import { insertKeys, type KeyState } from '../../store/records/channel-keys.ts'
import type { Deps } from '../server/deps.ts'

type PlainKey = {
  readonly channelId: number
  readonly position: number
  readonly key: string
  readonly state?: KeyState
}

const ENABLED: KeyState = { status: KEY_STATUS.enabled, reason: '', disabled_time: 0 }

const place = (id: number) => ({ table: 'channel_keys', row: id, field: 'key' })

/** Provider keys are stored encrypted. The management API decrypts them only here. */
export function createChannelSeals({ keyring, digest }: Pick<Deps, 'keyring' | 'digest'>) {
  return {
    add: (trx: Trx, keys: readonly PlainKey[]): Promise<void> =>
      insertKeys(
        trx,
        keys.map(({ channelId, position, key, state = ENABLED }) => ({
          channel_id: channelId,
          position,
          digest: digest(key),
          hint: mask(key.replace(/\s+/g, ' ')),
          ...state,
        })),
        (id, index) => keyring.seal(keys[index]?.key ?? '', place(id)),
      ),

    open({ id, sealed, position }: Pick<ChannelKeyRow, 'id' | 'sealed' | 'position'>): string {
      try {
        return keyring.open(sealed, place(id))
      } catch (error) {
        if (!(error instanceof SealError)) throw error
        throw new Refusal(
          'conflict',
          `The key at index ${position} cannot be decrypted with the current master secret. Enter it again.`,
        )
      }
    },

    digest,
  }
}

export type ChannelSeals = ReturnType<typeof createChannelSeals>
