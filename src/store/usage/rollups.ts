import { type RawBuilder, sql } from 'kysely'
import { NANOS_PER_UNIT } from '../../domain/money.ts'
import type { Db } from '../engine/store.ts'
import { type Dimension, GRAINS, type Grain, kindOf, UNITS } from './fold-units.ts'
import { foldedUnits } from './folds.ts'
import { tokenOwners } from './token-names.ts'

/** Usage in a span of time, from the quarter-hour sums; `to` is exclusive. */
export type RollupFilter = {
  readonly from: number
  readonly to: number
  readonly userId?: number | undefined
  readonly tokenIds?: readonly number[] | undefined
  readonly channelId?: number | undefined
  readonly model?: string | undefined
  /** Times at which sums must be split. Without cuts, no sum is longer than the requested step. */
  readonly cuts?: readonly number[] | undefined
}

export const ROLLUP_S = 900
const ROLLUP_GROUPS = {
  model: 'model',
  token: 'token_id',
  channel: 'channel_id',
  user: 'user_id',
} as const satisfies Record<string, Dimension>
export type RollupGroup = keyof typeof ROLLUP_GROUPS

export type Sums = {
  readonly requests: number
  readonly failures: number
  readonly prompt_tokens: number
  readonly completion_tokens: number
  /** Nanodollars. */
  readonly cost: number
}

const SUM_COLUMNS = ['requests', 'failures', 'prompt_tokens', 'completion_tokens', 'cost'] as const
// PostgreSQL sums bigint to numeric, which would make everything after it slower.
const quarterSums = SUM_COLUMNS.map(name => sql`cast(sum(${sql.ref(name)}) as bigint) as ${sql.ref(name)}`)
const sums = SUM_COLUMNS.map(name => sql<number>`coalesce(sum(${sql.ref(name)}), 0)`.as(name))

/** A span of quarter hours, or of the sums that they were folded into. */
type Piece = { readonly from: number; readonly to: number; readonly folded?: { grain: Grain; step: number } }

/** Of the sums that have all requested dimensions, those with the fewest others. */
function grainOf(dimensions: readonly Dimension[], sumsOf: (typeof UNITS)[number]['sums'], stepS: number) {
  return sumsOf
    .filter(({ step }) => stepS % step === 0)
    .filter(({ grain }) => dimensions.every(each => (GRAINS[grain] as readonly Dimension[]).includes(each)))
    .toSorted((a, b) => b.step - a.step || GRAINS[a.grain].length - GRAINS[b.grain].length)[0]
}

/**
 * Divides a span into folded pieces, the largest units first, and unfolded ones. `stepS` is the requested step: coarser
 * units are used only between two cuts. Together the pieces cover the span, without overlaps.
 */
async function piecesOf(
  db: Db,
  { from, to, cuts }: RollupFilter,
  dimensions: readonly Dimension[],
  stepS: number,
): Promise<Piece[]> {
  let open: Piece[] = [{ from, to }]
  const offers = UNITS.map(({ unit, sums: offered }) => ({
    unit,
    folded: grainOf(dimensions, offered, cuts ? 0 : stepS),
  }))
  const widthOf = ({ folded }: (typeof offers)[number]) =>
    folded ? GRAINS[folded.grain].length : Number.POSITIVE_INFINITY
  // A longer unit with more dimensions than requested has more rows than shorter units without them.
  const least = Math.min(...offers.map(widthOf))
  for (const { unit, folded } of offers.filter(offer => widthOf(offer) === least)) {
    if (!folded) continue
    const divided: Piece[] = []
    const cutUnits = new Set(cuts?.filter(cut => cut % unit !== 0).map(cut => cut - (cut % unit)))
    for (const piece of open) {
      if (piece.folded || piece.to - piece.from < unit) {
        divided.push(piece)
        continue
      }
      const first = Math.ceil(piece.from / unit) * unit
      const units = await foldedUnits(db, unit, first, piece.to)
      const starts = [...units.difference(cutUnits)].sort((a, b) => a - b)
      let at = piece.from
      for (const start of starts) {
        const last = divided.at(-1)
        if (start > at) divided.push({ from: at, to: start })
        if (start === at && last?.folded === folded && last.to === start)
          divided[divided.length - 1] = { ...last, to: start + unit }
        else divided.push({ from: start, to: start + unit, folded })
        at = start + unit
      }
      if (at < piece.to) divided.push({ from: at, to: piece.to })
    }
    open = divided
  }
  return open
}

type Condition = readonly [Dimension, readonly (string | number)[]]

function conditionsOf({ tokenIds, channelId, model }: RollupFilter, userIds: readonly number[] | undefined) {
  const one = (value: string | number | undefined) => (value === undefined ? undefined : [value])
  const columns: readonly (readonly [Dimension, readonly (string | number)[] | undefined])[] = [
    ['user_id', userIds],
    ['token_id', tokenIds],
    ['channel_id', one(channelId)],
    ['model', one(model)],
  ]
  return columns.flatMap(([name, values]): Condition[] => (values ? [[name, values]] : []))
}

const DAY_S = 86_400

/** Whether sums by this group read thousands of rows at most, for a span of any length. */
export function isFolded(filter: RollupFilter, group: RollupGroup): boolean {
  // Quarter hours are found by user.
  if (filter.userId !== undefined || filter.to - filter.from <= DAY_S) return true
  const dimensions = [ROLLUP_GROUPS[group], ...conditionsOf(filter, undefined).map(([name]) => name)]
  return UNITS.some(({ sums: offered }) => grainOf(dimensions, offered, 0) !== undefined)
}

/** The part of a span that has quarter hours at all: a requested span may be unbounded. */
async function existingSpan(db: Db, { from, to }: { from: number; to: number }) {
  const first = db.selectFrom('rollups').select('bucket').orderBy('bucket').limit(1)
  const last = db.selectFrom('rollups').select('bucket').orderBy('bucket', 'desc').limit(1)
  const [oldest, newest] = await Promise.all([first.executeTakeFirst(), last.executeTakeFirst()])
  return {
    from: Math.max(from, oldest?.bucket ?? to),
    to: Math.min(to, (newest?.bucket ?? from) + ROLLUP_S),
  }
}

/** Lists every start time, because the index begins with the time: a user's rows are looked up for each of them. */
const eachOf = (column: string, { from, to }: { from: number; to: number }, stepS: number) =>
  sql`${sql.ref(column)} in (with recursive starts(at) as (select cast(${sql.lit(from)} as bigint) where ${sql.lit(from)} < ${sql.lit(to)}
    union all select at + ${sql.lit(stepS)} from starts where at + ${sql.lit(stepS)} < ${sql.lit(to)}) select at from starts)`
const between = (column: string, { from, to }: { from: number; to: number }) =>
  sql`${sql.ref(column)} >= ${from} and ${sql.ref(column)} < ${to}`

/** Up to this many tokens are looked up one by one in every quarter hour; for more, all rows are read. */
const FEW_TOKENS = 8

/** The owners of the tokens: the index has the user before the token. */
const ownersOf = async (db: Db, tokenIds: readonly number[] | undefined) =>
  tokenIds && tokenIds.length <= FEW_TOKENS ? tokenOwners(db, tokenIds) : undefined

type Grouping = {
  readonly by?: Dimension
  /** Of `by`, only these. */
  readonly keys?: readonly (string | number)[] | undefined
  /** The requested step; rows that come in order of time are summed by quarter hour already in the query. */
  readonly stepS?: number
}

/** The columns and conditions for every piece. */
type Reading = {
  readonly by: Dimension | undefined
  readonly tokenIds: readonly number[] | undefined
  readonly owners: readonly number[] | undefined
  readonly conditions: readonly Condition[]
  readonly stepS: number
}

const groupColumns = (by: Dimension | undefined) => (by ? [sql.ref(by)] : [])
const columnsOf = ({ by }: Reading) =>
  sql.join([...groupColumns(by), ...SUM_COLUMNS.map(name => sql.ref(name))])
const whereClauses = ({ conditions }: Reading) =>
  sql.join(
    conditions.map(([name, values]) => sql`and ${sql.ref(name)} in (${sql.join(values)})`),
    sql` `,
  )

/** The sums of a folded piece, each looked up by its start. */
const foldedRows = (
  piece: Piece,
  folded: NonNullable<Piece['folded']>,
  reading: Reading,
): RawBuilder<unknown> =>
  sql`select start as bucket, ${columnsOf(reading)} from rollup_sums where kind = ${kindOf(folded)}
    and ${reading.owners ? eachOf('start', piece, folded.step) : between('start', piece)} ${whereClauses(reading)}`

/** The quarter hours of an unfolded piece, summed already where they come in the requested order. */
async function quarterRows(db: Db, piece: Piece, reading: Reading): Promise<RawBuilder<unknown>> {
  const { by, owners, tokenIds, stepS } = reading
  const within =
    owners && tokenIds ? eachOf('bucket', await existingSpan(db, piece), ROLLUP_S) : between('bucket', piece)
  const isInOrder = by === undefined || by === 'user_id'
  if (stepS === 0 || !isInOrder)
    return sql`select bucket, ${columnsOf(reading)} from rollups where ${within} ${whereClauses(reading)}`
  const columns = groupColumns(by)
  return sql`select bucket, ${sql.join([...columns, ...quarterSums])} from rollups where ${within} ${whereClauses(reading)}
    group by ${sql.join([...columns, sql.ref('bucket')])}`
}

/** The rows of a span as one table `found`, each with its start. */
async function rowsOf(db: Db, filter: RollupFilter, { by, keys, stepS = 0 }: Grouping = {}) {
  const tokenIds = by === 'token_id' && keys ? keys.map(Number) : filter.tokenIds
  const owners = filter.userId === undefined ? await ownersOf(db, tokenIds) : [filter.userId]
  const conditions = conditionsOf({ ...filter, tokenIds }, owners)
  if (by && keys) conditions.push([by, keys])
  const dimensions = [...new Set([...(by ? [by] : []), ...conditions.map(([name]) => name)])]
  const reading: Reading = { by, tokenIds, owners, conditions, stepS }
  const pieces = await piecesOf(db, filter, dimensions, stepS)
  const arms = await Promise.all(
    pieces.map(piece =>
      piece.folded ? foldedRows(piece, piece.folded, reading) : quarterRows(db, piece, reading),
    ),
  )
  const rows = sql<
    Sums & { bucket: number } & Record<Dimension, string & number>
  >`(${sql.join(arms, sql` union all `)})`
  return db.selectFrom(rows.as('found'))
}

export const sumRollups = async (db: Db, filter: RollupFilter): Promise<Sums> =>
  (await rowsOf(db, filter)).select(sums).executeTakeFirstOrThrow()

/** Whole units and the remainder in nanodollars: sums of nanodollars over all time could exceed 2^53. */
export type UnitSums = { readonly units: number; readonly rest: number }

export const sumUnits = async (db: Db, filter: RollupFilter): Promise<UnitSums> =>
  (await rowsOf(db, filter))
    .select([
      sql<number>`coalesce(sum(cost / ${sql.lit(NANOS_PER_UNIT)}), 0)`.as('units'),
      sql<number>`coalesce(sum(cost % ${sql.lit(NANOS_PER_UNIT)}), 0)`.as('rest'),
    ])
    .executeTakeFirstOrThrow()

type GroupSums = Sums & { readonly key: string | number }

/** The sums of each member of a group, by default the most expensive first. */
export async function groupRollups(
  db: Db,
  filter: RollupFilter,
  { by, limit, order = 'cost' }: { by: RollupGroup; limit: number; order?: 'cost' | 'requests' },
): Promise<GroupSums[]> {
  const column = ROLLUP_GROUPS[by]
  return (await rowsOf(db, filter, { by: column }))
    .select([`${column} as key`, ...sums])
    .groupBy(column)
    .orderBy(order, 'desc')
    .orderBy('requests', 'desc')
    .orderBy(column)
    .limit(limit)
    .execute()
}

export type RollupStep = Sums & { readonly bucket: number }

/** The sums of every step that had requests, in order of time. */
export async function stepRollups(db: Db, filter: RollupFilter, stepS: number): Promise<RollupStep[]> {
  const bucket = sql<number>`bucket - bucket % ${sql.lit(stepS)}`
  return (await rowsOf(db, filter, { stepS }))
    .select([bucket.as('bucket'), ...sums])
    .groupBy(bucket)
    .orderBy(bucket)
    .execute()
}

/** The same for some members of a group, or for all. */
export async function stepRollupsOf(
  db: Db,
  filter: RollupFilter,
  { by, stepS, keys }: { by: RollupGroup; stepS: number; keys?: readonly (string | number)[] },
): Promise<(RollupStep & { readonly key: string | number })[]> {
  if (keys?.length === 0) return []
  const column = ROLLUP_GROUPS[by]
  const bucket = sql<number>`bucket - bucket % ${sql.lit(stepS)}`
  return (await rowsOf(db, filter, { by: column, keys, stepS }))
    .select([bucket.as('bucket'), `${column} as key`, ...sums])
    .groupBy([bucket, column])
    .orderBy(bucket)
    .execute()
}
