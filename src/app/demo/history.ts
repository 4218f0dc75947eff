import { cost } from '../../domain/cost.ts'
import { EMPTY } from '../../domain/usage.ts'
import { createRequestIds } from '../../http/request-id.ts'
import type { Books } from '../../ledger/books.ts'
import type { SettleRecord } from '../../ledger/record.ts'
import { shippedPrice } from '../../providers/prices/shipped.ts'

/** Somebody whose requests the history tells. */
export type Spender = {
  readonly userId: number
  readonly tokenId: number
  readonly tokenName: string
  readonly models: readonly string[]
}
export type History = {
  readonly spenders: readonly Spender[]
  /** The channel that answers, the one that takes over, and the one that fails. */
  readonly channels: { readonly first: number; readonly second: number; readonly broken: number }
  readonly nowMs: number
}

const NODE = 'demo-history'
const REQUESTS = 900
const SPAN_MS = 24 * 3600 * 1000
const BATCH = 256

/** The same history for every demo: chance that can be repeated. */
function createChance(seed: number) {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}

/** A day as it might have been: busier by day than by night, some requests failed over, some failed. */
function historyOf({ spenders, channels, nowMs }: History): SettleRecord[] {
  const chance = createChance(20_260_101)
  const newRequestId = createRequestIds()
  const pick = <T>(list: readonly T[]): T => list[Math.floor(chance() * list.length)] as T
  const moments = Array.from({ length: REQUESTS }, () => {
    const agoMs = chance() * SPAN_MS
    const hour = new Date(nowMs - agoMs).getUTCHours()
    const isBusy = hour >= 7 && hour < 19
    return isBusy || chance() < 0.3 ? agoMs : chance() * (SPAN_MS / 6)
  }).sort((a, b) => b - a)

  return moments.map((agoMs): SettleRecord => {
    const timeMs = Math.floor(nowMs - agoMs)
    const { userId, tokenId, tokenName, models } = pick(spenders)
    const model = pick(models)
    const isError = chance() < 0.02
    const isFailedOver = !isError && chance() < 0.08
    const isStream = chance() < 0.7
    const input = Math.ceil(200 + chance() ** 3 * 6_000)
    const cachedInput = chance() < 0.4 ? Math.floor(input * chance()) : 0
    const output = Math.ceil(30 + chance() ** 2 * 1_200)
    const usage = isError ? EMPTY : { ...EMPTY, calls: 1, input: input - cachedInput, cachedInput, output }
    const price = shippedPrice(model, timeMs)
    const firstMs = Math.ceil(180 + chance() ** 2 * 1_400)
    const channelId = isError ? channels.broken : isFailedOver ? channels.second : channels.first
    const failed = { channel: channels.broken, status: 503, ms: Math.ceil(chance() * 400) }
    const answered = { channel: channelId, status: isError ? 503 : 200, ms: firstMs }
    return {
      kind: 'settle',
      rid: newRequestId(timeMs),
      timeMs,
      userId,
      tokenId,
      channelId,
      cost: price ? cost(price, usage) : 0,
      overrun: 0,
      userLeased: 0,
      tokenLeased: 0,
      doubts: [],
      log: {
        tokenName,
        model,
        promptTokens: isError ? 0 : input,
        completionTokens: isError ? 0 : output,
        useTimeMs: isError ? failed.ms : firstMs + output * 8,
        isStream,
        address: '127.0.0.1',
        isError,
        content: isError ? 'the provider answered 503' : '',
        upstreamRequestId: '',
        other: {
          demo: true,
          source: isError ? 'zero' : 'provider',
          ...(isError ? { error_code: 'upstream_error' } : { frt: firstMs }),
          ...(price && { price: 'shipped', priced_as: model }),
          ...(cachedInput > 0 && !isError && { cache_tokens: cachedInput }),
          ...((isFailedOver || isError) && {
            trace: { attempts: isError ? [failed] : [failed, answered], passed_over: [] },
          }),
        },
      },
    }
  })
}

/** Writes the history into the books, as a node would that had served it: entries, balances, rows and sums agree. */
export async function writeHistory(books: Books, history: History): Promise<void> {
  await books.openNode(NODE, Math.floor(history.nowMs / 1000))
  const records = historyOf(history)
  for (let start = 0; start < records.length; start += BATCH) {
    const batch = records.slice(start, start + BATCH)
    const lastLsn = start + batch.length
    await books.apply(NODE, {
      settled: batch.map(record => JSON.stringify(record)),
      afterLsn: start,
      lastLsn,
      oldestOpenLsn: lastLsn + 1,
    })
  }
}
