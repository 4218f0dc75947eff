import { type RawBuilder, sql } from 'kysely'
import { NANOS_PER_UNIT } from '../../domain/money.ts'
import type { Db } from '../engine/store.ts'
import { type Dimension, GRAINS, type Grain, kindOf, UNITS } from './fold-units.ts'
import { foldedUnits } from './folds.ts'
import { tokenOwners } from './token-names.ts'

/** What was used in a stretch of time, from the quarter-hour sums; `to` belongs to it no more. */
export type RollupFilter = {
  readonly from: number
  readonly to: number
  readonly userId?: number | undefined
  readonly tokenIds?: readonly number[] | undefined
  readonly channelId?: number | undefined
  readonly model?: string | undefined
  /** Moments that no sum may reach across; without them, none is longer than the step that is asked by. */
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

const SUMMED = ['requests', 'failures', 'prompt_tokens', 'completion_tokens', 'cost'] as const
// PostgreSQL sums up to another type, with which everything after it would be slower.
const summed = SUMMED.map(name => sql`cast(sum(${sql.ref(name)}) as bigint) as ${sql.ref(name)}`)
const sums = SUMMED.map(name => sql<number>`coalesce(sum(${sql.ref(name)}), 0)`.as(name))

/** A stretch of the quarter hours themselves, or of what they were folded into. */
type Piece = { readonly from: number; readonly to: number; readonly folded?: { grain: Grain; step: number } }

/** Of the sums that keep all that is asked by, the ones that keep the least besides. */
function grainOf(dimensions: readonly Dimension[], sumsOf: (typeof UNITS)[number]['sums'], stepS: number) {
  return sumsOf
    .filter(({ step }) => stepS % step === 0)
    .filter(({ grain }) => dimensions.every(each => (GRAINS[grain] as readonly Dimension[]).includes(each)))
    .toSorted((a, b) => b.step - a.step || GRAINS[a.grain].length - GRAINS[b.grain].length)[0]
}

/**
 * Divides a stretch into what is folded, in the largest units first, and what is not. `stepS` is what the sums are asked
 * by: nothing coarser serves, but for what lies between two cuts. Together the pieces are the stretch, each moment once.
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
  // A longer unit that is kept by more than is asked for has more rows than shorter ones that are not.
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

type Wanted = readonly [Dimension, readonly (string | number)[]]

function wantedOf({ tokenIds, channelId, model }: RollupFilter, userIds: readonly number[] | undefined) {
  const one = (value: string | number | undefined) => (value === undefined ? undefined : [value])
  const columns: readonly (readonly [Dimension, readonly (string | number)[] | undefined])[] = [
    ['user_id', userIds],
    ['token_id', tokenIds],
    ['channel_id', one(channelId)],
    ['model', one(model)],
  ]
  return columns.flatMap(([name, values]): Wanted[] => (values ? [[name, values]] : []))
}

const DAY_S = 86_400

/** True where sums by this group read thousands of rows at most, however long the stretch is. */
export function isFolded(filter: RollupFilter, group: RollupGroup): boolean {
  // Quarter hours are found by user.
  if (filter.userId !== undefined || filter.to - filter.from <= DAY_S) return true
  const dimensions = [ROLLUP_GROUPS[group], ...wantedOf(filter, undefined).map(([name]) => name)]
  return UNITS.some(({ sums: offered }) => grainOf(dimensions, offered, 0) !== undefined)
}

/** The stretch in which there are quarter hours at all: one that is asked for may have neither beginning nor end. */
async function known(db: Db, { from, to }: { from: number; to: number }) {
  const first = db.selectFrom('rollups').select('bucket').orderBy('bucket').limit(1)
  const last = db.selectFrom('rollups').select('bucket').orderBy('bucket', 'desc').limit(1)
  const [oldest, newest] = await Promise.all([first.executeTakeFirst(), last.executeTakeFirst()])
  return {
    from: Math.max(from, oldest?.bucket ?? to),
    to: Math.min(to, (newest?.bucket ?? from) + ROLLUP_S),
  }
}

/** Every beginning by its name: rows are in the order of time first, so that only so a user's are found at once in each. */
const eachOf = (column: string, { from, to }: { from: number; to: number }, stepS: number) =>
  sql`${sql.ref(column)} in (with recursive starts(at) as (select cast(${sql.lit(from)} as bigint) where ${sql.lit(from)} < ${sql.lit(to)}
    union all select at + ${sql.lit(stepS)} from starts where at + ${sql.lit(stepS)} < ${sql.lit(to)}) select at from starts)`
const between = (column: string, { from, to }: { from: number; to: number }) =>
  sql`${sql.ref(column)} >= ${from} and ${sql.ref(column)} < ${to}`

/** So many tokens are looked for one by one in every quarter hour; of more, all that were used are read. */
const FEW_TOKENS = 8

/** The users whose tokens these are: rows are in the order of users first. */
const ownersOf = async (db: Db, tokenIds: readonly number[] | undefined) =>
  tokenIds && tokenIds.length <= FEW_TOKENS ? tokenOwners(db, tokenIds) : undefined

type Kept = {
  readonly by?: Dimension
  /** Of `by`, only these. */
  readonly keys?: readonly (string | number)[] | undefined
  /** What they are going to be summed up by; those that are found in the order of time are summed up by quarter hours. */
  readonly stepS?: number
}

/** What is read of every piece. */
type Reading = {
  readonly by: Dimension | undefined
  readonly tokenIds: readonly number[] | undefined
  readonly owners: readonly number[] | undefined
  readonly wanted: readonly Wanted[]
  readonly stepS: number
}

const keptBy = (by: Dimension | undefined) => (by ? [sql.ref(by)] : [])
const columnsOf = ({ by }: Reading) => sql.join([...keptBy(by), ...SUMMED.map(name => sql.ref(name))])
const narrowedBy = ({ wanted }: Reading) =>
  sql.join(
    wanted.map(([name, values]) => sql`and ${sql.ref(name)} in (${sql.join(values)})`),
    sql` `,
  )

/** A piece that was folded: its own sums, each found by where it begins. */
const foldedRows = (
  piece: Piece,
  folded: NonNullable<Piece['folded']>,
  reading: Reading,
): RawBuilder<unknown> =>
  sql`select start as bucket, ${columnsOf(reading)} from rollup_sums where kind = ${kindOf(folded)}
    and ${reading.owners ? eachOf('start', piece, folded.step) : between('start', piece)} ${narrowedBy(reading)}`

/** A piece that was not: its quarter hours, summed up at once where they come in the order that is asked for. */
async function quarterRows(db: Db, piece: Piece, reading: Reading): Promise<RawBuilder<unknown>> {
  const { by, owners, tokenIds, stepS } = reading
  const within =
    owners && tokenIds ? eachOf('bucket', await known(db, piece), ROLLUP_S) : between('bucket', piece)
  const isInOrder = by === undefined || by === 'user_id'
  if (stepS === 0 || !isInOrder)
    return sql`select bucket, ${columnsOf(reading)} from rollups where ${within} ${narrowedBy(reading)}`
  const kept = keptBy(by)
  return sql`select bucket, ${sql.join([...kept, ...summed])} from rollups where ${within} ${narrowedBy(reading)}
    group by ${sql.join([...kept, sql.ref('bucket')])}`
}

/** The rows of a stretch as one table `found`, each with where it begins. */
async function found(db: Db, asked: RollupFilter, { by, keys, stepS = 0 }: Kept = {}) {
  const tokenIds = by === 'token_id' && keys ? keys.map(Number) : asked.tokenIds
  const owners = asked.userId === undefined ? await ownersOf(db, tokenIds) : [asked.userId]
  const wanted = wantedOf({ ...asked, tokenIds }, owners)
  if (by && keys) wanted.push([by, keys])
  const dimensions = [...new Set([...(by ? [by] : []), ...wanted.map(([name]) => name)])]
  const reading: Reading = { by, tokenIds, owners, wanted, stepS }
  const pieces = await piecesOf(db, asked, dimensions, stepS)
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
  (await found(db, filter)).select(sums).executeTakeFirstOrThrow()

/** In units and what is left below one: sums of nanodollars over all time could pass the largest exact number. */
export type UnitSums = { readonly units: number; readonly rest: number }

export const sumUnits = async (db: Db, filter: RollupFilter): Promise<UnitSums> =>
  (await found(db, filter))
    .select([
      sql<number>`coalesce(sum(cost / ${sql.lit(NANOS_PER_UNIT)}), 0)`.as('units'),
      sql<number>`coalesce(sum(cost % ${sql.lit(NANOS_PER_UNIT)}), 0)`.as('rest'),
    ])
    .executeTakeFirstOrThrow()

export type GroupSums = Sums & { readonly key: string | number }

/** The sums of each, those that cost most first. */
export async function groupRollups(
  db: Db,
  filter: RollupFilter,
  { by, limit, order = 'cost' }: { by: RollupGroup; limit: number; order?: 'cost' | 'requests' },
): Promise<GroupSums[]> {
  const column = ROLLUP_GROUPS[by]
  return (await found(db, filter, { by: column }))
    .select([`${column} as key`, ...sums])
    .groupBy(column)
    .orderBy(order, 'desc')
    .orderBy('requests', 'desc')
    .orderBy(column)
    .limit(limit)
    .execute()
}

export type RollupStep = Sums & { readonly bucket: number }

/** The sums of every `stepS` seconds in which there were requests, in order of time. */
export async function stepRollups(db: Db, filter: RollupFilter, stepS: number): Promise<RollupStep[]> {
  const bucket = sql<number>`bucket - bucket % ${sql.lit(stepS)}`
  return (await found(db, filter, { stepS }))
    .select([bucket.as('bucket'), ...sums])
    .groupBy(bucket)
    .orderBy(bucket)
    .execute()
}

/** The same for some of a group, or for all of it. */
export async function stepRollupsOf(
  db: Db,
  filter: RollupFilter,
  { by, stepS, keys }: { by: RollupGroup; stepS: number; keys?: readonly (string | number)[] },
): Promise<(RollupStep & { readonly key: string | number })[]> {
  if (keys?.length === 0) return []
  const column = ROLLUP_GROUPS[by]
  const bucket = sql<number>`bucket - bucket % ${sql.lit(stepS)}`
  return (await found(db, filter, { by: column, keys, stepS }))
    .select([bucket.as('bucket'), `${column} as key`, ...sums])
    .groupBy([bucket, column])
    .orderBy(bucket)
    .execute()
}
