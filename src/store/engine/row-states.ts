import { sql } from 'kysely'
import { type ChainFields, type ChainKey, rowMac } from '../../domain/chain.ts'
import type { Db } from './store.ts'

/**
 * The name and keyed digest of a row that determines permissions or money; the digest of a deleted row is empty. An audit
 * record contains the states after its change. The audit log is a keyed chain, so a row that differs from its last recorded
 * state was changed outside the gateway.
 */
export type RowState = readonly [name: string, digest: string]

type Row = Readonly<Record<string, string | number | null>>
type Table = {
  readonly from: string
  readonly id: string
  readonly columns: readonly string[]
  /** Its rows may be deleted without an audit record of their own; a missing row grants nothing. */
  readonly isRemovedWithOwner?: true
}

const account = (kind: string, table: string) =>
  `${table} left join accounts on accounts.kind = '${kind}' and accounts.owner_id = ${table}.id`

/** Tables by the kind of audit target. Encrypted columns are omitted: they are authenticated, and rotation rewrites them. */
const TABLES: Readonly<Record<string, Table>> = {
  user: {
    from: account('user', 'users'),
    id: 'users.id',
    columns: [
      'username_key',
      'password_hash',
      'role',
      'status',
      'user_group',
      'limits',
      'deleted_time',
      'unlimited',
    ],
  },
  token: {
    from: account('token', 'tokens'),
    id: 'tokens.id',
    columns: [
      'user_id',
      'key_digest',
      'status',
      'expired_time',
      'model_limits_enabled',
      'models',
      'allow_ips',
      'token_group',
      'limits',
      'unlimited',
    ],
    isRemovedWithOwner: true,
  },
  channel: {
    from: 'channels',
    id: 'channels.id',
    columns: ['type', 'base_url', 'models', 'model_mapping', 'status', 'param_override', 'setting', 'limits'],
  },
  alias: { from: 'aliases', id: 'aliases.id', columns: ['name', 'target', 'channel_ids', 'status'] },
  canary: {
    from: 'canaries',
    id: 'canaries.id',
    columns: [
      'kind',
      'subject',
      'state',
      'round',
      'share',
      'split_by',
      'token_ids',
      'from_time',
      'until_time',
    ],
  },
}

/** All versions of a model's price are one state: ending a price ends every version at once. */
const PRICES = 'prices of '
const SETTINGS = 'settings'
const BATCH = 500

const stateOf = (key: ChainKey, name: string, fields: ChainFields | undefined): RowState => [
  name,
  fields === undefined ? '' : rowMac(key, name, fields),
]

const fieldsOf = ({ columns }: Table, row: Row): ChainFields => columns.map(column => row[column] ?? null)

const select = ({ from, id, columns }: Table) =>
  sql.raw(`select ${id} as id, ${columns.join(', ')} from ${from}`)

async function rowState(db: Db, key: ChainKey, kind: string, id: number): Promise<RowState | undefined> {
  const table = TABLES[kind]
  if (!table) return undefined
  const { rows } = await sql<Row>`${select(table)} where ${sql.raw(table.id)} = ${id}`.execute(db)
  return stateOf(key, `${kind}:${id}`, rows[0] && fieldsOf(table, rows[0]))
}

/** The states of many rows of one kind, in the order of the ids. */
export async function statesOfRows(
  db: Db,
  key: ChainKey,
  kind: 'user' | 'token' | 'channel',
  ids: readonly number[],
): Promise<RowState[]> {
  const table = TABLES[kind] as Table
  const states = new Map<number, RowState>()
  for (let start = 0; start < ids.length; start += BATCH) {
    const { rows } = await sql<
      Row & { id: number }
    >`${select(table)} where ${sql.raw(table.id)} in (${sql.join(ids.slice(start, start + BATCH))})`.execute(
      db,
    )
    for (const row of rows) states.set(row.id, stateOf(key, `${kind}:${row.id}`, fieldsOf(table, row)))
  }
  return ids.map(id => states.get(id) ?? [`${kind}:${id}`, ''])
}

async function priceState(db: Db, key: ChainKey, model: string): Promise<RowState> {
  const rows = await db
    .selectFrom('prices')
    .select(['id', 'version', 'price', 'effective_time', 'ended_time', 'activation'])
    .where('model', '=', model)
    .orderBy('id')
    .execute()
  const fields = rows.flatMap(row => [
    row.id,
    row.version,
    row.price,
    row.effective_time,
    row.ended_time,
    row.activation,
  ])
  return stateOf(key, PRICES + model, rows.length === 0 ? undefined : fields)
}

async function settingsState(db: Db, key: ChainKey): Promise<RowState> {
  const rows = await db.selectFrom('settings').select(['key', 'value']).orderBy('key').execute()
  // Sorted here, because the engines sort texts differently.
  const fields = rows.map(row => JSON.stringify([row.key, row.value])).sort()
  return stateOf(key, SETTINGS, rows.length === 0 ? undefined : fields)
}

/** The state of an audit record's target in this transaction; none if the target is not such a row. */
export async function stateOfTarget(db: Db, key: ChainKey, target: string): Promise<RowState[]> {
  if (target === SETTINGS) return [await settingsState(db, key)]
  const [kind = '', text] = target.split(':')
  const id = Number(text)
  if (!Number.isSafeInteger(id)) return []
  if (kind === 'price') {
    const row = await db.selectFrom('prices').select('model').where('id', '=', id).executeTakeFirst()
    return row ? [await priceState(db, key, row.model)] : []
  }
  const state = await rowState(db, key, kind, id)
  return state ? [state] : []
}

/** The current state of a row, by the state's name. */
export async function readState(db: Db, key: ChainKey, name: string): Promise<RowState> {
  if (name.startsWith(PRICES)) return priceState(db, key, name.slice(PRICES.length))
  const [state] = await stateOfTarget(db, key, name)
  return state ?? [name, '']
}

/** Whether a row of this name may be missing without an audit record. */
export const mayBeMissing = (name: string) => TABLES[name.split(':')[0] ?? '']?.isRemovedWithOwner === true

async function* tableStates(db: Db, key: ChainKey, kind: string, table: Table): AsyncGenerator<RowState> {
  let last = Number.MIN_SAFE_INTEGER
  for (;;) {
    const id = sql.raw(table.id)
    const { rows } = await sql<Row & { id: number }>`${select(table)} where ${id} > ${last} order by ${id}
      limit ${sql.lit(BATCH)}`.execute(db)
    for (const row of rows) yield stateOf(key, `${kind}:${row.id}`, fieldsOf(table, row))
    last = rows.at(-1)?.id ?? last
    if (rows.length < BATCH) return
  }
}

/** The states of all rows, read in batches to bound memory. */
export async function* listStates(db: Db, key: ChainKey): AsyncGenerator<RowState> {
  for (const [kind, table] of Object.entries(TABLES)) yield* tableStates(db, key, kind, table)
  const models = await db.selectFrom('prices').select('model').distinct().execute()
  for (const { model } of models) yield priceState(db, key, model)
  const settings = await settingsState(db, key)
  if (settings[1] !== '') yield settings
}
