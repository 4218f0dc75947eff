import type { Generated, Insertable, Selectable } from 'kysely'
import type { AccountKind } from '../../domain/account.ts'
import type { AlertKind, DeliveryStatus, TargetType } from '../../domain/alert.ts'
import type { CanaryKind, CanarySide, CanarySplit, CanaryState } from '../../domain/canary.ts'
import type { StoredNodeState } from '../../domain/node.ts'
import type { VideoPhase, VideoStatus } from '../../domain/video.ts'

/** One schema, two engines. */
export type Engine = 'sqlite' | 'postgres'

/** The tables of both engines: integers for flags and times, text for lists and objects (JSON). */
export type Database = {
  meta: MetaTable
  users: UsersTable
  accounts: AccountsTable
  entries: EntriesTable
  chains: ChainsTable
  tokens: TokensTable
  token_names: TokenNamesTable
  dismissals: DismissalsTable
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
  node_heartbeats: NodeHeartbeatsTable
  rate_shares: RateSharesTable
  sign_in_failures: SignInFailuresTable
  leases: LeasesTable
  suspense: SuspenseTable
  rollups: RollupsTable
  rollup_sums: RollupSumsTable
  rollup_folds: RollupFoldsTable
  videos: VideosTable
  alert_rules: AlertRulesTable
  alert_targets: AlertTargetsTable
  alert_states: AlertStatesTable
  alert_deliveries: AlertDeliveriesTable
  alert_leases: AlertLeasesTable
  setting_secrets: SettingSecretsTable
  bodies: BodiesTable
  body_pages: BodyPagesTable
  body_places: BodyPlacesTable
  saved_tests: SavedTestsTable
  imports: ImportsTable
  config_revisions: ConfigRevisionsTable
  config_changes: ConfigChangesTable
  config_owned: ConfigOwnedTable
  canaries: CanariesTable
  canary_sums: CanarySumsTable
  canary_times: CanaryTimesTable
  shadow_sums: ShadowSumsTable
}

type MetaTable = { key: string; value: string }

type UsersTable = {
  id: Generated<number>
  username: string
  /** The case-folded name, which must be unique. */
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
  /** A `BodyMode` of `domain/body-log.ts`. */
  log_bodies: Generated<string>
}

/**
 * The money of a user or the limit of a token, in nanodollars. Changed only together with an entry.
 * The remaining amount is credited - posted; `held` of it is leased to nodes.
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
 * `grant` and `limit` change `credited` of a user or a token. `settle` and `refund` change `posted` of both. `keyed` changes
 * no amount: it is the first keyed link of a chain that was started without a key.
 */
export type EntryKind = 'grant' | 'limit' | 'settle' | 'refund' | 'keyed'

/** The head of every chain: its last link, and a keyed digest that proves that it is the last. */
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
  /** A `BodyMode` of `domain/body-log.ts`. */
  log_bodies: Generated<string>
}

/** Every name that a token has had, with its owner; stays when the token is deleted. */
type TokenNamesTable = { token_id: number; name: string; user_id: number }

/** What users have dismissed from the list of what needs attention. */
type DismissalsTable = { user_id: number; item: string; time: number }

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
  /** JSON: {requested model: sent model}. */
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
  /** Nanodollars that vendors report for requests, and our cost of the same requests. */
  vendor_cost: Generated<number>
  vendor_compared: Generated<number>
  auto_ban: number
  test_model: string
  /** JSON objects, returned as they were received. */
  param_override: string
  header_override: string
  status_code_mapping: string
  setting: string
  /** The secrets for which `setting` has placeholders; '': none. */
  setting_sealed: Generated<string>
  openai_organization: string
  other: string
  remark: string
  limits: string
  /** Several keys in one channel (`multi_to_single`), even if only one remains. */
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

/** The names of `channels.models`, one per row, for look-ups by model. */
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

/** Versions of a model's price, set by administrators. Only the activation and the end of a row ever change. */
type PricesTable = {
  id: Generated<number>
  model: string
  /** The folded name, for searching. */
  search: string
  version: number
  /** JSON: a `Price` of `domain/price.ts`. */
  price: string
  effective_time: number
  created_time: number
  author_id: number
  ended_time: number | null
  /** A number that orders the model's versions by activation; null before that. Clock changes do not affect it. */
  activation: number | null
}

/** The log that users see: requests, top-ups and other events. */
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
  /** The provider's id of the request. */
  upstream_request_id: Generated<string>
  /** JSON object. */
  other: string
  /** The number of requests that the row stands for: 1, or more for rejected ones. */
  requests: Generated<number>
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
  /** JSON: [name, digest][]. Digests of the rows after the change (`row-states.ts`). */
  state: string | null
}

type IdempotencyTable = {
  user_id: number
  path: string
  key: string
  body_digest: string
  /** The response, encrypted, because it may contain a credential that is shown only once. */
  answer_sealed: string
  created_time: number
}

/** A relay process and how far its journal has been applied. */
type NodesTable = {
  id: string
  /** Counts how often the node has been opened. Negative: it is retired, and its records are refused. */
  epoch: number
  applied_lsn: number
  oldest_open_lsn: number
  started_time: number
}

/** A node of the fleet (docs/adr/0023-nodes-heartbeats-and-fences.md). Times are those of the database. */
type NodeHeartbeatsTable = {
  node_id: string
  /** A random id of one start of a gateway: its workers have it in common. */
  machine: string
  name: string
  address: string
  version: string
  state: StoredNodeState
  /** The node refuses requests this long after its last renewing beat. */
  fence_ms: number
  beat_ms: number
  /** The node's caches reflect all changes up to this sequence number of the audit chain. */
  applied: number
  in_flight: number
  /** The master secrets of the node, newest first, separated by commas. Empty: a node of an older version. */
  secret_ids: Generated<string>
}

/** The shares of all machines in the limits of a token, user or channel, as JSON (docs/adr/0024-shares-of-rate-limits.md). */
type RateSharesTable = { subject: string; version: number; shares: string }

/** Failed sign-ins of an account or a network, by a digest of their names. Used on PostgreSQL only. */
type SignInFailuresTable = { bucket: string; failures: number; last_ms: number; blocked_until_ms: number }

/** The amount of an account that a node may spend on its own; the sum over all nodes is the account's `held`. */
type LeasesTable = {
  node_id: string
  kind: AccountKind
  owner_id: number
  amount: number
  /** The number of the node's last change, and the amount it was granted. */
  number: number
  granted: number
}

/** Amounts that a provider may have billed for responses that no client received. An entry is open until Root resolves it. */
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

/** Sums of rollups by the step and the dimensions of each `kind`; 0 and '' for the other dimensions. */
type RollupSumsTable = Omit<RollupsTable, 'bucket'> & { kind: string; start: number }
export type RollupSumRow = Selectable<RollupSumsTable>

/** The folded spans of `unit` seconds. While a fold runs, `run` identifies it. */
type RollupFoldsTable = { unit: number; start: number; run: string }

/** Video jobs. Rows outlive their channels; times are in seconds, except for columns with another unit in their name. */
type VideosTable = {
  id: string
  /** Increases with time; lists are sorted by it. */
  seq: number
  request_id: string
  user_id: number
  token_id: number
  token_name: string
  /** The requested model, and the model that was sent. */
  model: string
  sent_model: string
  channel_id: number
  channel_type: number
  /** The key and address that the job was sent with, encrypted. It is polled with them even if the channel changes. */
  access_sealed: string
  /** A variant of the submission that the vendor's module needs for polling. */
  kind: string
  upstream_id: string | null
  /** JSON: string[]. Further upstream jobs that this job consists of. */
  upstream_more: string
  /** JSON: the request without its images. */
  parameters: string
  remixed_from: string | null
  phase: VideoPhase
  /** The node that has the hold for a job that is not yet paid. */
  node_id: string | null
  status: VideoStatus
  /** Thousandths. */
  progress: number
  /** JSON: {status: time}. The time when each state was first seen. */
  states: string
  seconds: string
  size: string
  /** JSON: the provider's location of each result. */
  results: string
  error_code: string | null
  error_message: string | null
  /** Nanodollars: the paid cost, and the estimate. */
  cost: number
  estimate: number
  price: string
  created_time: number
  started_time: number | null
  completed_time: number | null
  expires_time: number
  next_poll_ms: number
  polled_ms: number
  /** Consecutive polls in which the provider did not know the job. */
  misses: number
  /** The error of the last poll; empty if it succeeded. */
  poll_error: string
  lease_until_ms: number
  lease_by: string
  repeat_key: string | null
  repeat_digest: string | null
  /** JSON: {status, body}. The response for repeated requests; null: the current state of the job. */
  answer: string | null
  refunded_time: number | null
  refunded_by: string | null
  refund_reason: string | null
  deleted_time: number | null
}

type AlertRulesTable = {
  id: Generated<number>
  name: string
  kind: AlertKind
  enabled: number
  /** JSON: `RuleOptions` of `domain/alert.ts`. */
  options: string
  created_time: number
}

type AlertTargetsTable = {
  id: Generated<number>
  name: string
  type: TargetType
  enabled: number
  /** JSON: `TargetOptions`. */
  options: string
  /** JSON: `TargetSecrets`, masked. */
  hints: string
  /** JSON: `TargetSecrets`, encrypted. */
  sealed: string
  created_time: number
}

/** The state of a rule for each subject whose condition holds, or whose last message is not sent yet. */
type AlertStatesTable = {
  rule_id: number
  subject: string
  since: number
  fired_time: number | null
  cleared_time: number | null
  notified_time: number | null
  /** When its machine last observed it; for rules that each machine observes itself. */
  seen_time: number
  /** JSON: the values of the last observation. */
  observed: string
}

/** Messages to targets: waiting, sent, or dead after the last attempt. */
type AlertDeliveriesTable = {
  id: Generated<number>
  target_id: number
  status: DeliveryStatus
  /** JSON: `Notice[]`. */
  notices: string
  omitted: number
  created_time: number
  attempts: number
  next_time: number
  /** Until then, one machine is sending it. */
  claimed_until: number
  ended_time: number | null
  last_error: string
}

/** The machine that evaluates the rules about the whole store. */
type AlertLeasesTable = { name: string; holder: string; until_time: number }

/** The encrypted values of settings that contain a secret; `settings` has their masked values. */
type SettingSecretsTable = { key: string; sealed: string }

export type AlertRuleRow = Selectable<AlertRulesTable>
export type AlertTargetRow = Selectable<AlertTargetsTable>
export type AlertStateRow = Selectable<AlertStatesTable>
export type AlertDeliveryRow = Selectable<AlertDeliveriesTable>

/** The bodies of a request and its answer, encrypted with the key in `meta.body_key`. Newer ones are in pages. */
type BodiesTable = {
  request_id: string
  user_id: number
  token_id: number
  created_time: number
  /** Bytes of `content`. */
  size: number
  content: Uint8Array
}

/** The bodies of several requests of one user, encrypted together like those of `bodies`. */
type BodyPagesTable = {
  /** The id of its first request. */
  id: string
  user_id: number
  created_time: number
  /** Bytes of `content`. */
  size: number
  /** A JSON list of the ids of its other requests, whose rows in `body_places` are removed with the page. */
  other_requests: string
  content: Uint8Array
}

/** The page that has the bodies of a request, unless it is the first one of the page. */
type BodyPlacesTable = { request_id: string; page_id: string }

/** A request that is saved to be sent again; its body is encrypted like those of `bodies`. */
type SavedTestsTable = {
  id: Generated<number>
  user_id: number
  name: string
  path: string
  model: string
  /** JSON: how its answer is checked. */
  expectation: string
  created_time: number
  content: Uint8Array
}

/** The row here that an import made of a row of another gateway. */
type ImportsTable = {
  /** The gateway that was imported from, `new-api` or a name that the operator chose. */
  source: string
  kind: ImportKind
  source_id: string
  target_id: number
  /** JSON: what the last import read and wrote, without secrets. */
  state: string
  time: number
}
export type ImportKind = 'user' | 'token' | 'channel' | 'price' | 'access_token' | 'logs'

export type ImportRow = Selectable<ImportsTable>

/** A revision of the configuration: one transaction that changed it. */
type ConfigRevisionsTable = {
  revision: number
  time: number
  actor_id: number
  actor_name: string
  /** As in `audit`. */
  via: string
  reason: string
}

/** The change of one object by a revision. */
type ConfigChangesTable = {
  revision: number
  /** `channel:7`, `price:gpt-4o`, `setting:attempts` … */
  target: string
  /** The first target of the object: a restored object has another id. */
  object: string
  name: string
  /** JSON: the configuration of the object, without secrets; null if it does not exist. */
  before: string | null
  after: string | null
}

/** The objects that `sluice apply` has written from a file. */
type ConfigOwnedTable = {
  target: string
  name: string
  /** JSON: the fields of the file as they were applied, without secrets. */
  fields: string
  time: number
}

/** A change that is tried on a part of the requests, or a price that is computed but not charged. */
type CanariesTable = {
  id: Generated<number>
  kind: CanaryKind
  /** The id of the channel or alias, or the model of the price. At most one canary of each is open. */
  subject: string
  /** The name of the channel or alias at the start, or the model. */
  name: string
  /** JSON, sealed, because a channel's headers and settings may contain credentials: the columns before and after. */
  changes_sealed: string
  state: CanaryState
  /** Counts the changes of the share and the tokens: results of different rounds are not comparable. */
  round: number
  /** Tenths of a percent. */
  share: number
  split_by: CanarySplit
  /** JSON: the ids of the tokens that take part; null: all. */
  token_ids: string | null
  from_time: number
  until_time: number | null
  note: string
  author_id: number
  author_name: string
  created_time: number
  round_time: number
  ended_time: number | null
  /** Why it ended. */
  end_note: string
}

/** The sums of a canary's requests, by round and side. */
type CanarySumsTable = {
  canary_id: number
  round: number
  side: CanarySide
  requests: number
  errors: number
  prompt_tokens: number
  completion_tokens: number
  cost: number
}

/** The times of a canary's successful requests, for percentiles. */
type CanaryTimesTable = {
  canary_id: number
  round: number
  side: CanarySide
  time: number
  request_id: string
  use_time_ms: number
  first_ms: number | null
}

/** The charges of requests and what a shadow price would have charged, by day, user and token. */
type ShadowSumsTable = {
  canary_id: number
  /** The start of the day in UTC. */
  day: number
  user_id: number
  token_id: number
  requests: number
  cost: number
  shadow_cost: number
}

export type CanaryRow = Selectable<CanariesTable>
export type NewCanary = Insertable<CanariesTable>
export type CanarySumsRow = Selectable<CanarySumsTable>
export type ConfigRevisionRow = Selectable<ConfigRevisionsTable>
export type ConfigChangeRow = Selectable<ConfigChangesTable>
export type ConfigOwnedRow = Selectable<ConfigOwnedTable>
export type SavedTestRow = Selectable<SavedTestsTable>
export type BodyRow = Selectable<BodiesTable>
export type BodyPageRow = Selectable<BodyPagesTable>
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
