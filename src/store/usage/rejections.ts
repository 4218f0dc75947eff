import { sql } from 'kysely'
import type { CanaryMark } from '../../domain/canary.ts'
import { LOG_TYPE } from '../../domain/log.ts'
import {
  NO_CHANNEL,
  type Rejection,
  type RejectionBatch,
  type RejectionRowIds,
} from '../../domain/rejection.ts'
import type { NewLog } from '../engine/schema.ts'
import { type Db, type Trx, transact } from '../engine/store.ts'
import { UNITS } from './fold-units.ts'
import { EMPTY_LOG } from './logs.ts'
import { ROLLUP_S } from './rollups.ts'

const ROWS_AT_ONCE = 100
const MAX_PASSED_OVER = 20

const secondOf = (timeMs: number) => Math.floor(timeMs / 1000)

const rowOf = (rejection: Rejection): NewLog => ({
  ...EMPTY_LOG,
  created_time: secondOf(rejection.timeMs),
  type: LOG_TYPE.error,
  user_id: rejection.userId,
  token_id: rejection.tokenId,
  token_name: rejection.tokenName,
  model_name: rejection.model,
  content: rejection.message,
  use_time_ms: rejection.useTimeMs,
  is_stream: rejection.isStream ? 1 : 0,
  address: rejection.address,
  request_id: rejection.requestId,
  other: JSON.stringify({
    rejected: true,
    error_code: rejection.code,
    status: rejection.status,
    ...(rejection.requestedModel !== undefined && { requested_model: rejection.requestedModel }),
    ...(rejection.param !== undefined && { param: rejection.param }),
    ...(rejection.tags && { tags: rejection.tags }),
    ...(rejection.canaries && { canary: rejection.canaries }),
    ...(rejection.passedOver && {
      trace: { attempts: [], passed_over: rejection.passedOver.slice(0, MAX_PASSED_OVER) },
    }),
  }),
})

/** Adds to the row that already stands for such requests, or inserts one. Returns its id. */
async function addTo(trx: Trx, rowId: number | undefined, row: NewLog): Promise<number> {
  const { requests = 1 } = row
  if (rowId !== undefined) {
    const { numUpdatedRows } = await trx
      .updateTable('logs')
      .set(each => ({ requests: each('requests', '+', requests) }))
      .where('id', '=', rowId)
      // Both are of the first request of that minute: PostgreSQL looks into one partition only.
      .where('created_time', '=', row.created_time)
      .executeTakeFirstOrThrow()
    if (numUpdatedRows > 0n) return rowId
  }
  const { id } = await trx.insertInto('logs').values(row).returning('id').executeTakeFirstOrThrow()
  return id
}

type RejectionSum = { readonly key: readonly [number, number, number, string]; requests: number }

/** Adds the rejected requests to the quarter hours, as failures without a channel. */
async function addToRollups(trx: Trx, counted: readonly (readonly [Rejection, number])[]): Promise<void> {
  const sums = new Map<string, RejectionSum>()
  for (const [{ timeMs, userId, tokenId, model }, requests] of counted) {
    const second = secondOf(timeMs)
    const key = [second - (second % ROLLUP_S), userId, tokenId, model] as const
    const name = key.join('\n')
    const sum = sums.get(name)
    if (sum) sum.requests += requests
    else sums.set(name, { key, requests })
  }
  // Sorted, so that every node locks the rows in the same order.
  for (const [, { key, requests }] of [...sums].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const [bucket, user_id, token_id, model] = key
    await trx
      .insertInto('rollups')
      .values({
        bucket,
        user_id,
        token_id,
        channel_id: NO_CHANNEL,
        model,
        requests,
        failures: requests,
        prompt_tokens: 0,
        completion_tokens: 0,
        cost: 0,
      })
      .onConflict(conflict =>
        conflict.columns(['bucket', 'user_id', 'token_id', 'channel_id', 'model']).doUpdateSet({
          requests: sql<number>`rollups.requests + excluded.requests`,
          failures: sql<number>`rollups.failures + excluded.failures`,
        }),
      )
      .execute()
  }
}

/** Adds the rejected requests to the sums of the canaries that they took part in, as errors. */
async function addToCanaries(trx: Trx, counted: readonly (readonly [Rejection, number])[]): Promise<void> {
  const sums = new Map<string, { readonly mark: CanaryMark; requests: number }>()
  for (const [{ canaries = [] }, requests] of counted)
    for (const mark of canaries) {
      const name = `${mark.id}\n${mark.round}\n${mark.side}`
      const sum = sums.get(name)
      if (sum) sum.requests += requests
      else sums.set(name, { mark, requests })
    }
  // Sorted as when settled requests are applied.
  for (const [, { mark, requests }] of [...sums].sort(([a], [b]) => (a < b ? -1 : 1)))
    await trx
      .insertInto('canary_sums')
      .values({
        canary_id: mark.id,
        round: mark.round,
        side: mark.side,
        requests,
        errors: requests,
        prompt_tokens: 0,
        completion_tokens: 0,
        cost: 0,
      })
      .onConflict(conflict =>
        conflict.columns(['canary_id', 'round', 'side']).doUpdateSet({
          requests: sql<number>`canary_sums.requests + excluded.requests`,
          errors: sql<number>`canary_sums.errors + excluded.errors`,
        }),
      )
      .execute()
}

/** Deletes the folds that lack these requests; after the rollups, as when settled requests are applied. */
async function invalidateFolds(trx: Trx, times: readonly number[]): Promise<void> {
  // In the order in which settled requests lock these rows too.
  for (const { unit } of UNITS.toSorted((a, b) => a.unit - b.unit)) {
    const starts = new Set(times.map(timeMs => secondOf(timeMs) - (secondOf(timeMs) % unit)))
    for (const start of [...starts].sort((a, b) => a - b))
      await trx.deleteFrom('rollup_folds').where('unit', '=', unit).where('start', '=', start).execute()
  }
}

/** The last batch of a node that was written. */
type WrittenBatch = RejectionRowIds & { readonly id: string }

const keyOf = (nodeId: string) => `rejections ${nodeId}`

/**
 * The last batch of a node; undefined if there is none. It stays locked until the end of the transaction: an earlier write
 * of the same batch may still be committing after its connection broke.
 */
async function lockLastBatch(trx: Trx, nodeId: string): Promise<WrittenBatch | undefined> {
  const { value } = await trx
    .insertInto('meta')
    .values({ key: keyOf(nodeId), value: '' })
    .onConflict(conflict => conflict.column('key').doUpdateSet({ value: sql<string>`meta.value` }))
    .returning('value')
    .executeTakeFirstOrThrow()
  return value === '' ? undefined : (JSON.parse(value) as WrittenBatch)
}

/** Writes the rejected requests of a node to the log and adds them to the sums, each batch once. */
export const writeRejections = (db: Db, nodeId: string, batch: RejectionBatch): Promise<RejectionRowIds> =>
  transact(db, async trx => {
    const last = await lockLastBatch(trx, nodeId)
    if (last?.id === batch.id) return last
    const ids = await writeBatch(trx, batch)
    const written: WrittenBatch = { id: batch.id, ...ids }
    await trx
      .updateTable('meta')
      .set({ value: JSON.stringify(written) })
      .where('key', '=', keyOf(nodeId))
      .execute()
    return ids
  })

async function writeBatch(
  trx: Trx,
  { rows, further, unknown }: Omit<RejectionBatch, 'id'>,
): Promise<RejectionRowIds> {
  for (let start = 0; start < rows.length; start += ROWS_AT_ONCE)
    await trx
      .insertInto('logs')
      .values(rows.slice(start, start + ROWS_AT_ONCE).map(rowOf))
      .execute()
  const furtherIds: number[] = []
  for (const { first, requests, rowId } of further)
    furtherIds.push(
      await addTo(trx, rowId, {
        ...rowOf(first),
        model_name: '',
        request_id: '',
        use_time_ms: 0,
        content: 'Further requests that were rejected with the same code in the same minute.',
        requests,
      }),
    )
  const unknownIds: number[] = []
  for (const { timeMs, code, requests, rowId } of unknown)
    unknownIds.push(
      await addTo(trx, rowId, {
        ...EMPTY_LOG,
        created_time: secondOf(timeMs),
        type: LOG_TYPE.system,
        user_id: 0,
        content: `Requests of unidentified callers that were rejected in this minute: ${code}.`,
        other: JSON.stringify({ rejected: true, error_code: code }),
        requests,
      }),
    )
  const counted = [
    ...rows.map(rejection => [rejection, 1] as const),
    ...further.map(({ first, requests }) => [{ ...first, model: '' }, requests] as const),
  ]
  await addToRollups(trx, counted)
  await invalidateFolds(
    trx,
    counted.map(([{ timeMs }]) => timeMs),
  )
  await addToCanaries(trx, counted)
  return { further: furtherIds, unknown: unknownIds }
}
