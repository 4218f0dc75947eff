import { bodyModeOf, strongerMode } from '../../domain/body-log.ts'
import { CHANNEL_STATUS } from '../../domain/channel.ts'
import { parseLimits } from '../../domain/limits.ts'
import type { Price } from '../../domain/price.ts'
import type { Role } from '../../domain/role.ts'
import { NEVER, NO_TOKEN, NO_TOKEN_NAME } from '../../domain/token.ts'
import { readChannelNetwork } from '../../http/channel-network.ts'
import { mayApply, openCanaryChanges, type StoredCanaryChanges } from '../../identity/canary-changes.ts'
import { openHeaders } from '../../identity/channel-headers.ts'
import { openSetting } from '../../identity/channel-setting.ts'
import { type Digest, tokenDigests } from '../../identity/credentials.ts'
import type { Keyring } from '../../identity/keyring.ts'
import { brokenOverride, type Override, readStoredOverride } from '../../override/override.ts'
import type { OverrideFault } from '../../override/reading.ts'
import { providerOf, withChatFormats } from '../../providers/index.ts'
import { type CanaryRule, variantHealthId } from '../../routing/canary.ts'
import type { RoutedAlias, RoutedKey } from '../../routing/table.ts'
import type { AliasRow, CanaryRow, ChannelKeyRow, ChannelRow } from '../../store/engine/schema.ts'
import type { Db } from '../../store/engine/store.ts'
import { findAliases, listEnabledAliases } from '../../store/records/aliases.ts'
import { listRunningCanaries } from '../../store/records/canaries.ts'
import { pricesInForce, upcomingPrices } from '../../store/records/prices.ts'
import { listRelayChannels } from '../../store/records/relay-channels.ts'
import { readSettings } from '../../store/records/settings.ts'
import { findToken, findTokenByDigest } from '../../store/records/tokens.ts'
import { findUser } from '../../store/records/users.ts'
import type { Caller } from '../callers/callers.ts'
import { type Person, personOf } from '../callers/playground.ts'
import type { Timeouts } from '../upstream/exchange.ts'
import type { CatalogCanaries, CatalogSource, RelayChannel } from './catalog.ts'
import { createChannelSecrets } from './channel-secrets.ts'
import { readHeaderOverride } from './header-override.ts'

/** Versions that take effect within this time are loaded ahead; the store is polled every second. */
const UPCOMING_S = 10

const NO_LIMITS = parseLimits('{}')

/** Defaults (docs/reference/routing.md: Timeouts). */
const TIMEOUTS = { connect_ms: 10_000, first_byte_ms: 120_000, idle_ms: 120_000, total_ms: 600_000 } as const

function readTimeouts(setting: Readonly<Record<string, unknown>>): Timeouts {
  const set = { ...TIMEOUTS, ...(setting.timeouts as Partial<typeof TIMEOUTS> | undefined) }
  return {
    connectMs: set.connect_ms,
    firstByteMs: set.first_byte_ms,
    idleMs: set.idle_ms,
    totalMs: set.total_ms,
  }
}

const faultText = ({ path, message }: OverrideFault) => `param_override${path} ${message}`

/** The override was validated when it was saved. One that current rules reject fails this channel only. */
function readParamOverride(row: ChannelRow): { override: Override; disabled: readonly string[] } {
  const { reading, disabled } = readStoredOverride(JSON.parse(row.param_override))
  return {
    override: 'fault' in reading ? brokenOverride(faultText(reading.fault)) : reading.value,
    disabled: disabled.map(faultText),
  }
}

const ruleOf = (row: CanaryRow): CanaryRule => ({
  id: row.id,
  round: row.round,
  share: row.share,
  splitBy: row.split_by,
  tokenIds: row.token_ids === null ? undefined : new Set(JSON.parse(row.token_ids) as number[]),
})

const routedAlias = ({ name, target, channel_ids, status }: AliasRow): RoutedAlias => ({
  name,
  target,
  channelIds: channel_ids === null ? null : (JSON.parse(channel_ids) as number[]),
  status: status as RoutedAlias['status'],
})

type Deps = {
  readonly db: Db
  readonly keyring: Keyring
  readonly digest: Digest
  readonly shippedPrice: (model: string) => Price | undefined
  nowMs(): number
  /** A key that cannot be decrypted is left out; the other keys of the channel stay in use. */
  onUnreadable(channelId: number, error: Error): void
  /** A part of a channel's overrides is disabled; the rest stays in force. */
  onDisabledOverride(channelId: number, reason: string): void
}

/** A user without a token: only the user's limits apply. */
async function findOwnCaller(
  db: Db,
  { userId, channelId }: Pick<Person, 'userId' | 'channelId'>,
): Promise<Caller | undefined> {
  const user = await findUser(db, userId)
  return (
    user && {
      tokenId: NO_TOKEN,
      tokenName: NO_TOKEN_NAME,
      userId,
      role: user.role as Role,
      isTokenEnabled: true,
      isUserEnabled: user.status === 1,
      expiredTime: NEVER,
      models: undefined,
      allowIps: [],
      tokenLimits: NO_LIMITS,
      userLimits: parseLimits(user.limits),
      channelId,
      logBodies: bodyModeOf(user.log_bodies),
    }
  )
}

/** Reads the caller of a credential from the store. */
export const findCaller =
  ({ db, digest }: Pick<Deps, 'db' | 'digest'>) =>
  async (credential: string): Promise<Caller | undefined> => {
    const person = personOf(credential)
    if (person?.tokenId === NO_TOKEN) return findOwnCaller(db, person)
    const token = person
      ? await findToken(db, person.userId, person.tokenId)
      : await findTokenByDigest(db, tokenDigests(digest, credential))
    const user = token && (await findUser(db, token.user_id))
    if (!token || !user) return undefined
    return {
      tokenId: token.id,
      tokenName: token.name,
      userId: user.id,
      role: user.role as Role,
      isTokenEnabled: token.status === 1,
      isUserEnabled: user.status === 1,
      expiredTime: token.expired_time,
      models: token.model_limits_enabled === 1 ? new Set(JSON.parse(token.models) as string[]) : undefined,
      allowIps: JSON.parse(token.allow_ips),
      tokenLimits: parseLimits(token.limits),
      userLimits: parseLimits(user.limits),
      logBodies: strongerMode(bodyModeOf(token.log_bodies), bodyModeOf(user.log_bodies)),
    }
  }

/** Loads the catalog from the store. */
export function createCatalogSource(deps: Deps): CatalogSource {
  const { db, keyring, shippedPrice, nowMs, onUnreadable, onDisabledOverride } = deps
  function readKeys(channelId: number, rows: readonly ChannelKeyRow[]): RoutedKey[] {
    return rows.flatMap(({ id, position, sealed, status }) => {
      try {
        const value = keyring.open(sealed, { table: 'channel_keys', row: id, field: 'key' })
        return [{ id, index: position, value, status: status as RoutedKey['status'] }]
      } catch (error) {
        onUnreadable(channelId, error as Error)
        return []
      }
    })
  }

  /** A channel whose secrets cannot be decrypted is left out: without them it would send others, or in another way. */
  function readSealed(row: ChannelRow) {
    try {
      return { headers: openHeaders(keyring, row), settingText: openSetting(keyring, row) }
    } catch (error) {
      onUnreadable(row.id, error as Error)
      return undefined
    }
  }

  function readChannel(row: ChannelRow, keys: readonly ChannelKeyRow[]): RelayChannel[] {
    const provider = providerOf(row.type)
    if (!provider) return []
    const plain = readSealed(row)
    if (plain === undefined) return []
    const { headers, settingText } = plain
    const setting = { ...JSON.parse(settingText), openai_organization: row.openai_organization }
    const headerFields: Record<string, string> = JSON.parse(headers)
    const headerOverride = readHeaderOverride(headerFields)
    const { override, disabled } = readParamOverride(row)
    const disabledOverrides = [
      ...disabled,
      ...headerOverride.disabled.map(reason => `header_override: ${reason}`),
    ]
    for (const reason of disabledOverrides) onDisabledOverride(row.id, reason)
    const channelKeys = readKeys(row.id, keys)
    return [
      {
        id: row.id,
        name: row.name,
        type: row.type,
        models: JSON.parse(row.models),
        mapping: JSON.parse(row.model_mapping),
        priority: row.priority,
        weight: row.weight,
        status: row.status as RelayChannel['status'],
        keys: channelKeys,
        limits: parseLimits(row.limits),
        autoBan: row.auto_ban === 1,
        provider: withChatFormats(provider, setting.chat_formats),
        baseUrl: row.base_url,
        setting,
        timeouts: readTimeouts(setting),
        network: readChannelNetwork(setting),
        override,
        headerOverride,
        disabledOverrides,
        statusMapping: new Map(
          Object.entries(JSON.parse(row.status_code_mapping)).map(([from, to]) => [Number(from), Number(to)]),
        ),
        testModel: row.test_model,
        secrets: createChannelSecrets({
          keys: channelKeys.map(({ value }) => value),
          headers: headerFields,
          fields: [setting, JSON.parse(row.param_override)],
        }),
      },
    ]
  }

  /** A running canary whose change cannot be decrypted is left out: requests then take no part in it. */
  function readChanges(row: CanaryRow): StoredCanaryChanges | undefined {
    try {
      return openCanaryChanges(keyring, row)
    } catch (error) {
      onUnreadable(Number(row.subject), error as Error)
      return undefined
    }
  }

  /** Whether a canary sends the secrets of its channel nowhere else, or only those that it may. */
  function isApplicable(changes: StoredCanaryChanges, channel: ChannelRow, keys: readonly ChannelKeyRow[]) {
    const plain = readSealed(channel)
    const keyDigests = keys.map(({ digest: keyDigest }) => keyDigest)
    return (
      plain !== undefined &&
      mayApply(
        { ...channel, header_override: plain.headers, setting: plain.settingText, keyDigests },
        changes,
      )
    )
  }

  async function readCanaries(): Promise<CatalogCanaries> {
    const rows = (await listRunningCanaries(db)).flatMap(row => {
      const changes = readChanges(row)
      return changes ? [{ row, changes }] : []
    })
    const ofKind = (kind: CanaryRow['kind']) => rows.filter(({ row }) => row.kind === kind)
    const [ofChannels, ofAliases] = [ofKind('channel'), ofKind('alias')]
    const idsOf = (of: typeof rows) => of.map(({ row }) => Number(row.subject))
    const stored = ofChannels.length === 0 ? [] : await listRelayChannels(db, idsOf(ofChannels))
    const channels = ofChannels.flatMap(({ row, changes }) => {
      const base = stored.find(({ channel }) => channel.id === Number(row.subject))
      if (!base) return []
      const { channel, keys } = base
      if (!isApplicable(changes, channel, keys)) return []
      const status = channel.status === CHANNEL_STATUS.disabledByGateway ? { status: channel.status } : {}
      return readChannel({ ...channel, ...changes.after, ...status }, keys).map(variant => ({
        ...ruleOf(row),
        // Only the gateway's own requests of the channel may disable it.
        variant: { ...variant, healthId: variantHealthId(row.id), autoBan: false },
      }))
    })
    const aliases = (await findAliases(db, idsOf(ofAliases))).flatMap(alias => {
      const canary = ofAliases.find(({ row }) => Number(row.subject) === alias.id)
      return canary
        ? [{ ...ruleOf(canary.row), variant: routedAlias({ ...alias, ...canary.changes.after }) }]
        : []
    })
    const shadows = ofKind('price').map(
      ({ row, changes }) =>
        [
          row.subject,
          {
            id: row.id,
            price: JSON.parse(String(changes.after.price)) as Price,
            from: row.from_time,
            until: row.until_time ?? undefined,
          },
        ] as const,
    )
    return { channels, aliases, shadows: new Map(shadows) }
  }

  const load = async (ids?: readonly number[]) =>
    (await listRelayChannels(db, ids)).flatMap(({ channel, keys }) => readChannel(channel, keys))

  return {
    channels: () => load(),
    channelsOf: ids => load(ids),
    aliases: async () =>
      (await listEnabledAliases(db)).map(({ name, target, channelIds }) => ({
        name,
        target,
        channelIds,
        status: 1,
      })),
    async prices() {
      const atS = Math.floor(nowMs() / 1000)
      const [inForce, upcoming] = await Promise.all([
        pricesInForce(db, atS),
        upcomingPrices(db, atS, atS + UPCOMING_S),
      ])
      return { inForce, upcoming }
    },
    canaries: readCanaries,
    nowMs,
    settings: () => readSettings(db),
    shippedPrice,
  }
}
