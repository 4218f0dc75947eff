import type { Generated, Insertable, Selectable } from 'kysely'
import type { AccountKind } from '../../domain/account.ts'
import type { VideoPhase, VideoStatus } from '../../domain/video.ts'

/** One schema, two engines. */
export type Engine = 'sqlite' | 'postgres'

/** The tables, as both engines hold them: whole numbers for flags and times, text for lists and objects (JSON). */
export type Database = {
  meta: MetaTable
  users: UsersTable
  accounts: AccountsTable
  entries: EntriesTable
  chains: ChainsTable
  tokens: TokensTable
  token_names: TokenNamesTable
  access_tokens: AccessTokensTable
  sessions: SessionsTable
  channels: ChannelsTable
  channel_keys: ChannelKeysTable
  channel_models: ChannelModelsTable
  aliases: AliasesTable
  settings: SettingsTable
  prices: PricesTable
  logs: LogsTable
  audit: AuditTable
  idempotency: IdempotencyTable
  nodes: NodesTable
  leases: LeasesTable
  suspense: SuspenseTable
  rollups: RollupsTable
  rollup_sums: RollupSumsTable
  rollup_folds: RollupFoldsTable
  videos: VideosTable
}

type MetaTable = { key: string; value: string }

type UsersTable = {
  id: Generated<number>
  username: string
  /** The folded name: what uniqueness is judged by. */
  username_key: string
  display_name: string
  email: string
  /** Folded names and address, for searching. */
  search: string
  password_hash: string
  role: number
  status: number
  user_group: string
  /** JSON: {rpm, tpm, concurrency}. */
  limits: string
  created_time: number
  last_login_time: number
  deleted_time: number | null
}

/**
 * What a user has (money) or a token may still use (a limit), in nanodollars. Changed only together with an entry.
 * left = credited - posted; held is set aside for requests that run.
 */
type AccountsTable = {
  kind: AccountKind
  owner_id: number
  unlimited: number
  credited: number
  posted: number
  held: number
  request_count: number
}

/** The ledger. Entries are only ever added; each is a link of its writer's chain. */
type EntriesTable = {
  chain: string
  seq: number
  time: number
  kind: EntryKind
  user_id: number
  token_id: number | null
  channel_id: number | null
  amount: number
  actor: string
  reason: string
  request_id: string | null
  hash: string
}
/**
 * grant and limit move `credited` of a user or a token; settle and refund move `posted` of both; keyed moves nothing and
 * is the first link under the chain key in a chain that began without one.
 */
export type EntryKind = 'grant' | 'limit' | 'settle' | 'refund' | 'keyed'

/** The last link of every chain, and the keyed digest that proves it to be the last. */
type ChainsTable = { name: string; seq: number; hash: string; mac: string }

type TokensTable = {
  id: Generated<number>
  user_id: number
  name: string
  search: string
  key_digest: string
  key_sealed: string
  key_hint: string
  status: number
  created_time: number
  accessed_time: number
  expired_time: number
  model_limits_enabled: number
  /** JSON: string[]. */
  models: string
  /** JSON: string[]. */
  allow_ips: string
  token_group: string
  /** JSON: {rpm, tpm, concurrency}. */
  limits: string
}

/** Every name that a token has had, with whose it is: stays when the token goes. */
type TokenNamesTable = { token_id: number; name: string; user_id: number }

type AccessTokensTable = {
  id: Generated<number>
  user_id: number
  name: string
  digest: string
  hint: string
  created_time: number
  expired_time: number
  last_used_time: number
}

type SessionsTable = {
  id: Generated<number>
  user_id: number
  digest: string
  address: string
  user_agent: string
  created_time: number
  last_seen_time: number
  ended_time: number | null
}

type ChannelsTable = {
  id: Generated<number>
  name: string
  type: number
  base_url: string
  /** JSON: string[], in the administrator's order. */
  models: string
  /** JSON: {asked: sent}. */
  model_mapping: string
  priority: number
  weight: number
  status: number
  status_reason: string
  tag: string | null
  channel_group: string
  search: string
  created_time: number
  test_time: number
  response_time: number
  /** Nanodollars. */
  used: number
  /** Nanodollars that vendors say requests cost, and what those same requests cost here. */
  vendor_cost: Generated<number>
  vendor_compared: Generated<number>
  auto_ban: number
  test_model: string
  /** JSON objects, told back as they were given. */
  param_override: string
  header_override: string
  status_code_mapping: string
  setting: string
  openai_organization: string
  other: string
  remark: string
  limits: string
  /** Several keys in one channel (`multi_to_single`), even if only one is left. */
  is_multi: number
}

type ChannelKeysTable = {
  id: Generated<number>
  channel_id: number
  position: number
  digest: string
  sealed: string
  hint: string
  status: number
  reason: string
  disabled_time: number
}

/** `channels.models` once more, a row a name, for look-ups by model. */
type ChannelModelsTable = { channel_id: number; model: string }

type AliasesTable = {
  id: Generated<number>
  name: string
  target: string
  /** JSON: number[], or null for any channel. */
  channel_ids: string | null
  status: number
  search: string
  created_time: number
}

type SettingsTable = { key: string; value: string; updated_time: number; author_id: number }

/** Versions of a model's price as set by administrators; a row is never changed but for its activation and its end. */
type PricesTable = {
  id: Generated<number>
  model: string
  /** The folded name, for searching. */
  search: string
  version: number
  /** JSON: the price as `domain/price.ts` holds it. */
  price: string
  effective_time: number
  created_time: number
  author_id: number
  ended_time: number | null
  /** The order in which the model's versions came into force; null before that. The clock has no say in it afterwards. */
  activation: number | null
}

/** What users read as their log: top-ups now, requests once the relay writes them. */
type LogsTable = {
  id: Generated<number>
  created_time: number
  type: number
  user_id: number
  token_id: number
  token_name: string
  channel_id: number
  model_name: string
  content: string
  /** Nanodollars. */
  cost: number
  prompt_tokens: number
  completion_tokens: number
  use_time_ms: number
  is_stream: number
  address: string
  request_id: string
  /** What the provider calls the request. */
  upstream_request_id: Generated<string>
  /** JSON object. */
  other: string
}

type AuditTable = {
  seq: number
  time: number
  actor_id: number
  actor_name: string
  via: string
  address: string
  request_id: string
  action: string
  target: string
  /** JSON without secrets, or null. */
  before: string | null
  after: string | null
  hash: string
  /** JSON: [name, digest][]. How the change left the rows that the record is about (`row-states.ts`). */
  state: string | null
}

type IdempotencyTable = {
  user_id: number
  path: string
  key: string
  body_digest: string
  /** The answer, sealed: it may carry a credential that is shown once. */
  answer_sealed: string
  created_time: number
}

/** A relay process and how far its journal has been applied. */
type NodesTable = {
  id: string
  epoch: number
  applied_lsn: number
  oldest_open_lsn: number
  started_time: number
}

/** What a node may spend of an account without asking; the sum over nodes is the account's `held`. */
type LeasesTable = {
  node_id: string
  kind: AccountKind
  owner_id: number
  amount: number
  /** Of the last change that its node asked for, and what that gave if it asked for more. */
  number: number
  granted: number
}

/** What a provider may have billed for and nobody received: open until Root decides. */
type SuspenseTable = {
  id: Generated<number>
  time: number
  request_id: string
  user_id: number
  token_id: number
  channel_id: number
  amount: number
  reason: string
  closed_time: number | null
  closed_by: string | null
  closed_as: string | null
  closed_reason: string | null
}

/** Sums of usage by quarter hour, UTC. */
type RollupsTable = {
  bucket: number
  user_id: number
  token_id: number
  channel_id: number
  model: string
  requests: number
  failures: number
  prompt_tokens: number
  completion_tokens: number
  cost: number
}

/** Sums of rollups, of each `kind` by its step and by what its grain keeps; 0 and '' where that was summed away. */
type RollupSumsTable = Omit<RollupsTable, 'bucket'> & { kind: string; start: number }
export type RollupSumRow = Selectable<RollupSumsTable>

/** Which stretches of `unit` seconds are summed up, and while somebody is at one, their `run`. */
type RollupFoldsTable = { unit: number; start: number; run: string }

/** Video jobs. Rows outlive their channels; times are seconds, but for those that say otherwise. */
type VideosTable = {
  id: string
  /** Grows with time: the order of lists. */
  seq: number
  request_id: string
  user_id: number
  token_id: number
  token_name: string
  /** As it was asked for, and as it was sent. */
  model: string
  sent_model: string
  channel_id: number
  channel_type: number
  /** The key and address the job was sent with, sealed: it is asked about with them whatever becomes of the channel. */
  access_sealed: string
  /** What the vendor's file keeps of how it was sent. */
  kind: string
  upstream_id: string | null
  /** JSON: string[]. Further jobs of the provider that this one consists of. */
  upstream_more: string
  /** JSON: what was asked, without pictures. */
  parameters: string
  remixed_from: string | null
  phase: VideoPhase
  /** The node that holds the money for a job which is not yet paid. */
  node_id: string | null
  status: VideoStatus
  /** Thousandths. */
  progress: number
  /** JSON: {status: time}. When each state was first seen. */
  states: string
  seconds: string
  size: string
  /** JSON: where the provider keeps each result. */
  results: string
  error_code: string | null
  error_message: string | null
  /** Nanodollars that were paid, and that it was thought to cost. */
  cost: number
  estimate: number
  price: string
  created_time: number
  started_time: number | null
  completed_time: number | null
  expires_time: number
  next_poll_ms: number
  polled_ms: number
  /** How often in a row the provider did not know the job. */
  misses: number
  /** Why the last look told nothing; empty: it did. */
  poll_error: string
  lease_until_ms: number
  lease_by: string
  repeat_key: string | null
  repeat_digest: string | null
  /** JSON: {status, body}. What the client was answered, for repeats; null: the job as it is. */
  answer: string | null
  refunded_time: number | null
  refunded_by: string | null
  refund_reason: string | null
  deleted_time: number | null
}

export type VideoRow = Selectable<VideosTable>
export type NewVideo = Insertable<VideosTable>
export type SuspenseRow = Selectable<SuspenseTable>
export type UserRow = Selectable<UsersTable>
export type TokenRow = Selectable<TokensTable>
export type AccountRow = Selectable<AccountsTable>
export type EntryRow = Selectable<EntriesTable>
export type AccessTokenRow = Selectable<AccessTokensTable>
export type SessionRow = Selectable<SessionsTable>
export type ChannelRow = Selectable<ChannelsTable>
export type NewChannel = Insertable<ChannelsTable>
export type ChannelKeyRow = Selectable<ChannelKeysTable>
export type AliasRow = Selectable<AliasesTable>
export type PriceRow = Selectable<PricesTable>
export type LogRow = Selectable<LogsTable>
export type NewLog = Insertable<LogsTable>
export type AuditRow = Selectable<AuditTable>
