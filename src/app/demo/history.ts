import { cost } from '../../domain/cost.ts'
import { EMPTY } from '../../domain/usage.ts'
import { createRequestIds } from '../../http/request-id.ts'
import type { Books } from '../../ledger/books.ts'
import type { SettleRecord } from '../../ledger/record.ts'
import { shippedPrice } from '../../providers/prices/shipped.ts'

/** A user and token of the history. */
export type Spender = {
  readonly userId: number
  readonly tokenId: number
  readonly tokenName: string
  readonly models: readonly string[]
}
export type History = {
  readonly spenders: readonly Spender[]
  /** The channel that answers, the failover channel, and the one that fails. */
  readonly channels: { readonly first: number; readonly second: number; readonly broken: number }
  readonly nowMs: number
}

const NODE = 'demo-history'
const REQUESTS = 900
const SPAN_MS = 24 * 3600 * 1000
const BATCH = 256

/** A seeded random generator, so that every demo has the same history. */
function createRandom(seed: number) {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}

/** A plausible day: more requests by day than by night, some failed over, some failed. */
function historyOf({ spenders, channels, nowMs }: History): SettleRecord[] {
  const random = createRandom(20_260_101)
  const newRequestId = createRequestIds()
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T
  const moments = Array.from({ length: REQUESTS }, () => {
    const agoMs = random() * SPAN_MS
    const hour = new Date(nowMs - agoMs).getUTCHours()
    const isBusy = hour >= 7 && hour < 19
    return isBusy || random() < 0.3 ? agoMs : random() * (SPAN_MS / 6)
  }).sort((a, b) => b - a)

  return moments.map((agoMs): SettleRecord => {
    const timeMs = Math.floor(nowMs - agoMs)
    const { userId, tokenId, tokenName, models } = pick(spenders)
    const model = pick(models)
    const isError = random() < 0.02
    const isFailedOver = !isError && random() < 0.08
    const isStream = random() < 0.7
    const input = Math.ceil(200 + random() ** 3 * 6_000)
    const cachedInput = random() < 0.4 ? Math.floor(input * random()) : 0
    const output = Math.ceil(30 + random() ** 2 * 1_200)
    const usage = isError ? EMPTY : { ...EMPTY, calls: 1, input: input - cachedInput, cachedInput, output }
    const price = shippedPrice(model, timeMs)
    const firstMs = Math.ceil(180 + random() ** 2 * 1_400)
    const channelId = isError ? channels.broken : isFailedOver ? channels.second : channels.first
    const failed = { channel: channels.broken, status: 503, ms: Math.ceil(random() * 400) }
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
        content: isError ? 'The provider returned status 503.' : '',
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

/** Writes the history into the ledger as if a node had served it, so that entries, balances, rows and aggregates agree. */
export async function writeHistory(books: Books, history: History): Promise<void> {
  await books.openNode(NODE, 0, Math.floor(history.nowMs / 1000))
  const records = historyOf(history)
  for (let start = 0; start < records.length; start += BATCH) {
    const batch = records.slice(start, start + BATCH)
    const lastLsn = start + batch.length
    await books.apply(NODE, {
      settled: Buffer.from(JSON.stringify(batch)),
      afterLsn: start,
      lastLsn,
      oldestOpenLsn: lastLsn + 1,
    })
  }
}
