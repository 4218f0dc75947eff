import type { SourceChannel, SourceGateway, SourcePrice } from '../inventory.ts'
import type { ImportNotes } from '../notes.ts'
import { OVERSIZED, PAGE, pagesOf, type SourceDatabase, SourceError } from '../source/database.ts'
import { lineOf, quoted, type SourceRow, textOf, timeOf } from '../values.ts'
import { CHANNEL_COLUMNS, readChannel } from './channels.ts'
import { LOG_COLUMNS, readLog } from './logs.ts'
import { tryPrices } from './price-trial.ts'
import { DEFAULT_SCALE, readScale } from './quota.ts'
import { hasGroupPairs, readGroupFactors, readRatios, type ServedModel } from './ratios.ts'
import { readToken, TOKEN_COLUMNS } from './tokens.ts'
import { readUser, USER_COLUMNS } from './users.ts'

type NewApiVariant = 'new-api' | 'one-api'

const UNITS_DIGITS = 1_000_000

/** Tables that have no counterpart here, and what their rows are. */
const WITHOUT_COUNTERPART = {
  two_fas: 'second factors; these users sign in with the password alone',
  passkey_credentials: 'passkeys',
  user_oauth_bindings: 'sign-ins with other services',
  redemptions: 'redemption codes',
  user_subscriptions: 'subscriptions',
  tasks: 'jobs of videos and music, which clients can no longer poll',
  midjourneys: 'Midjourney jobs',
} as const

type Options = {
  readonly database: SourceDatabase
  readonly variant: NewApiVariant
  readonly now: number
  readonly notes: ImportNotes
}

/** Refuses a database of another program, whose numbers have other meanings. */
async function mustBe(database: SourceDatabase, variant: NewApiVariant): Promise<void> {
  for (const table of ['users', 'tokens', 'channels'])
    if (!(await database.columnsOf(table)).has('id'))
      throw new SourceError(`the database has no table "${table}" of ${variant}`)
  const tokens = await database.columnsOf('tokens')
  if (tokens.has('key_sealed'))
    throw new SourceError(
      'this is a database of Sluice, not of another gateway: "sluice backup" and "sluice restore" move it',
    )
  const other = tokens.has('subnet') ? 'one-api' : tokens.has('model_limits') ? 'new-api' : variant
  if (other !== variant)
    throw new SourceError(`this is a database of ${other}: run "sluice import ${other}" instead`)
}

async function readOptions(database: SourceDatabase): Promise<Map<string, string>> {
  const options = new Map<string, string>()
  const range = { table: 'options', key: 'key', columns: ['value'] }
  for await (const page of pagesOf(database, range))
    for (const row of page) options.set(textOf(row.key), textOf(row.value))
  return options
}

/** Counts by group how many users and tokens a factor would concern. */
function createGroupCounts() {
  const counts = new Map<string, { users: number; tokens: number }>()
  return {
    add(group: string, kind: 'users' | 'tokens'): void {
      const count = counts.get(group) ?? { users: 0, tokens: 0 }
      count[kind] += 1
      counts.set(group, count)
    },
    of: (group: string) => counts.get(group) ?? { users: 0, tokens: 0 },
    names: () => [...counts.keys()],
  }
}

/** Reads a database of new-api or one-api. */
export async function openNewApi({ database, variant, now, notes }: Options): Promise<SourceGateway> {
  await mustBe(database, variant)
  const options = await readOptions(database)
  const scale = readScale(options.get('QuotaPerUnit') ?? '') ?? DEFAULT_SCALE
  const unitsPerUsd = Number(scale) / UNITS_DIGITS
  if (scale !== DEFAULT_SCALE)
    notes.note(
      'source',
      'option QuotaPerUnit',
      `is ${unitsPerUsd}: quotas and prices are converted by their value in USD`,
    )
  const groups = createGroupCounts()
  const served = new Map<string, { types: Set<number>; mappedTo: Set<string> }>()
  const restricted: { label: string; groups: readonly string[] }[] = []

  /** Rows of a table as `read` makes them; rows that it drops are counted as skipped. */
  async function* read<Item>(
    table: 'users' | 'tokens' | 'channels',
    columns: readonly string[],
    item: (row: SourceRow) => Item | undefined,
  ): AsyncGenerator<readonly Item[]> {
    for await (const page of pagesOf(database, { table, key: 'id', columns })) {
      const items = page.flatMap(row => {
        const isOversized = textOf(row[OVERSIZED]) === '1'
        if (isOversized)
          notes.note('source', `${table} ${lineOf(row.id, 30)}`, 'is larger than 2 MiB; it is left out')
        const result = isOversized ? undefined : item(row)
        if (result === undefined) notes.count(table, 'skipped')
        return result ?? []
      })
      if (items.length > 0) yield items
    }
  }

  function noteServed(channel: SourceChannel, row: SourceRow): void {
    const { models, model_mapping: mapping } = channel.fields as {
      models: string[]
      model_mapping?: Record<string, unknown>
    }
    for (const model of models) {
      const entry = served.get(model) ?? { types: new Set(), mappedTo: new Set() }
      served.set(model, entry)
      entry.types.add(Number(textOf(row.type)))
      const mapped = mapping && Object.hasOwn(mapping, model) ? mapping[model] : undefined
      entry.mappedTo.add(typeof mapped === 'string' && mapped !== '' ? mapped : model)
    }
    restricted.push({ label: channel.label, groups: String(channel.fields.group).split(',') })
  }

  /** There are no groups here: factors and restrictions by group end with the import. */
  function noteGroups(): void {
    for (const [group, factor] of readGroupFactors(options)) {
      const { users, tokens } = groups.of(group)
      notes.note(
        'source',
        `group ${quoted(group)}`,
        `pays ${factor} times the price there (${users} users, ${tokens} tokens); here everyone pays the price itself`,
      )
    }
    if (hasGroupPairs(options))
      notes.note(
        'source',
        'option GroupGroupRatio',
        'has factors for pairs of groups, which do not exist here',
      )
    const names = groups.names().filter(name => name !== 'auto')
    for (const { label, groups: allowed } of restricted) {
      const without = names.filter(name => !allowed.includes(name))
      if (without.length > 0)
        notes.note(
          'channel',
          label,
          `is not for the groups ${without.slice(0, 10).map(quoted).join(', ')} there; here every token may use it`,
        )
    }
  }

  let prices: readonly SourcePrice[] = []

  /** Compares the prices with the last requests there, which are charged by ratios that may differ by then. */
  async function notePrices(): Promise<void> {
    const existing = await database.columnsOf('logs')
    const columns = LOG_COLUMNS.filter(column => existing.has(column))
    if (!existing.has('id') || !existing.has('quota')) return
    const range = { table: 'logs', key: 'id', columns: ['id', ...columns], isDescending: true }
    const derived = new Map(prices.map(({ model, price }) => [model, price]))
    const { compared, differing } = tryPrices(await database.read(range), derived, unitsPerUsd)
    if (compared === 0 || differing.size === 0) return
    const differences = [...differing.values()].reduce((sum, count) => sum + count, 0)
    const models = [...differing.keys()].slice(0, 10).map(quoted).join(', ')
    notes.note(
      'price',
      'the last requests',
      `${differences} of ${compared} were charged another amount there than by the derived prices and the factors of groups: ${models}`,
    )
  }

  async function noteTables(): Promise<void> {
    for (const [table, meaning] of Object.entries(WITHOUT_COUNTERPART)) {
      let rows = 0
      for await (const page of pagesOf(database, { table, key: 'id', columns: [] })) {
        rows += page.length
        if (rows >= PAGE * 20) break
      }
      if (rows > 0)
        notes.note('source', `table ${table}`, `has ${rows} rows that are not carried over: ${meaning}`)
    }
  }

  return {
    users: () =>
      read('users', USER_COLUMNS, row => {
        const user = readUser(row, scale, notes)
        if (user) groups.add(user.group, 'users')
        return user
      }),
    tokens: () =>
      read('tokens', TOKEN_COLUMNS, row => {
        const token = readToken(row, { variant, scale, now, notes })
        if (token && textOf(row.group) !== '') groups.add(token.group, 'tokens')
        return token
      }),
    channels: () =>
      read('channels', CHANNEL_COLUMNS, row => {
        const channel = readChannel(row, { variant, notes })
        if (channel) noteServed(channel, row)
        return channel
      }),
    async prices() {
      prices = readRatios({
        options,
        variant,
        served: served as ReadonlyMap<string, ServedModel>,
        unitsPerUsd,
        notes,
      })
      return prices
    },
    async *logs(after, since) {
      if (!(await database.columnsOf('logs')).has('id'))
        notes.note(
          'source',
          'table logs',
          'does not exist in this database, so no usage rows are imported; LOG_SQL_DSN may name another one there',
        )
      const range = {
        table: 'logs',
        key: 'id',
        columns: LOG_COLUMNS,
        after: after === undefined ? undefined : BigInt(after),
      }
      for await (const page of pagesOf(database, range)) {
        const rows = page.filter(row => timeOf(row.created_at) >= since)
        const logs = rows.flatMap(row => readLog(row, scale) ?? [])
        if (logs.length > 0) yield logs
      }
    },
    async conclude() {
      noteGroups()
      if (variant === 'new-api') await notePrices()
      await noteTables()
    },
  }
}
