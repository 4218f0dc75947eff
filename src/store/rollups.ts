import { type RawBuilder, sql } from 'kysely'
import { NANOS_PER_UNIT } from '../domain/money.ts'
import { type Dimension, GRAINS, type Grain, kindOf, UNITS } from './fold-units.ts'
import { foldedUnits } from './folds.ts'
import type { Db } from './store.ts'

/** What was used in a stretch of time, from the quarter-hour sums; `to` belongs to it no more. */
export type RollupFilter = {
  readonly from: number
  readonly to: number
  readonly userId?: number | undefined
  readonly tokenId?: number | undefined
  readonly channelId?: number | undefined
  readonly model?: string | undefined
}

export const ROLLUP_S = 900
export const ROLLUP_GROUPS = {
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
 * by: nothing coarser serves. Together the pieces are the stretch, each moment once.
 */
async function piecesOf(
  db: Db,
  { from, to }: { from: number; to: number },
  dimensions: readonly Dimension[],
  stepS: number,
): Promise<Piece[]> {
  let open: Piece[] = [{ from, to }]
  const offers = UNITS.map(({ unit, sums: offered }) => ({
    unit,
    folded: grainOf(dimensions, offered, stepS),
  }))
  const widthOf = ({ folded }: (typeof offers)[number]) =>
    folded ? GRAINS[folded.grain].length : Number.POSITIVE_INFINITY
  // A longer unit that is kept by more than is asked for has more rows than shorter ones that are not.
  const least = Math.min(...offers.map(widthOf))
  for (const { unit, folded } of offers.filter(offer => widthOf(offer) === least)) {
    if (!folded) continue
    const divided: Piece[] = []
    for (const piece of open) {
      if (piece.folded || piece.to - piece.from < unit) {
        divided.push(piece)
        continue
      }
      const first = Math.ceil(piece.from / unit) * unit
      const starts = [...(await foldedUnits(db, unit, first, piece.to))].sort((a, b) => a - b)
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

const wantedOf = ({ userId, tokenId, channelId, model }: RollupFilter) =>
  (
    [
      ['user_id', userId],
      ['token_id', tokenId],
      ['channel_id', channelId],
      ['model', model],
    ] as const
  ).filter(([, value]) => value !== undefined)

const DAY_S = 86_400

/** True where sums by this group read thousands of rows at most, however long the stretch is. */
export function isFolded(filter: RollupFilter, group: RollupGroup): boolean {
  // Quarter hours are found by user.
  if (filter.userId !== undefined || filter.to - filter.from <= DAY_S) return true
  const dimensions = [ROLLUP_GROUPS[group], ...wantedOf(filter).map(([name]) => name)]
  return UNITS.some(({ sums: offered }) => grainOf(dimensions, offered, 0) !== undefined)
}

/** The rows of a stretch as one table `found`, each with where it begins. */
async function found(
  db: Db,
  filter: RollupFilter,
  { by = [], stepS = 0 }: { by?: readonly Dimension[]; stepS?: number } = {},
) {
  const wanted = wantedOf(filter)
  const dimensions = [...new Set([...by, ...wanted.map(([name]) => name)])]
  const pieces = await piecesOf(db, filter, dimensions, stepS)
  const columns = sql.join([...by, ...SUMMED].map(name => sql.ref(name)))
  const narrowed = wanted.map(([name, value]) => sql`and ${sql.ref(name)} = ${value}`)
  const arms = pieces.map(
    ({ from, to, folded }): RawBuilder<unknown> =>
      folded
        ? sql`select start as bucket, ${columns} from rollup_sums where kind = ${kindOf(folded)} and start >= ${from} and start < ${to} ${sql.join(narrowed, sql` `)}`
        : sql`select bucket, ${columns} from rollups where bucket >= ${from} and bucket < ${to}
          ${sql.join(narrowed, sql` `)}`,
  )
  const rows = sql<
    Sums & { bucket: number } & Record<Dimension, string & number>
  >`(${sql.join(arms, sql` union all `)})`
  return db.selectFrom(rows.as('found'))
}

export const sumRollups = async (db: Db, filter: RollupFilter): Promise<Sums> =>
  (await found(db, filter)).select(sums).executeTakeFirstOrThrow()

/** In units and what is left below one: sums of nanodollars over all time could pass the largest exact number. */
export type Units = { readonly units: number; readonly rest: number }

export const sumUnits = async (db: Db, filter: RollupFilter): Promise<Units> =>
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
  group: RollupGroup,
  limit: number,
  order: 'cost' | 'requests' = 'cost',
): Promise<GroupSums[]> {
  const column = ROLLUP_GROUPS[group]
  return (await found(db, filter, { by: [column] }))
    .select([`${column} as key`, ...sums])
    .groupBy(column)
    .orderBy(order, 'desc')
    .orderBy('requests', 'desc')
    .orderBy(column)
    .limit(limit)
    .execute()
}

export type Step = Sums & { readonly bucket: number }

/** The sums of every `stepS` seconds in which there were requests, in order of time. */
export async function stepRollups(db: Db, filter: RollupFilter, stepS: number): Promise<Step[]> {
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
  stepS: number,
  group: RollupGroup,
  keys?: readonly (string | number)[],
): Promise<(Step & { readonly key: string | number })[]> {
  if (keys?.length === 0) return []
  const column = ROLLUP_GROUPS[group]
  const bucket = sql<number>`bucket - bucket % ${sql.lit(stepS)}`
  const all = await found(db, filter, { by: [column], stepS })
  return (keys ? all.where(column, 'in', keys as never) : all)
    .select([bucket.as('bucket'), `${column} as key`, ...sums])
    .groupBy([bucket, column])
    .orderBy(bucket)
    .execute()
}
