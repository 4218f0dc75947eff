import type { Books } from './books.ts'
import type { Journal } from './journal.ts'
import type { AttemptRecord, Numbered, OpenRecord, SettleRecord } from './record.ts'

type Unfinished = { open: OpenRecord; attempts: AttemptRecord[]; progress: number | undefined }

type RecoveryDeps = {
  readonly nodeId: string
  readonly journal: Journal
  readonly books: Books
  nowMs(): number
}

const BATCH = 512

/**
 * Ends what a killed process left open, each in exactly one entry: never sent, released; sent and nothing delivered,
 * the user pays nothing and the estimate stands in doubt; delivered in part, what was delivered is paid.
 */
function endingOf({ open, attempts, progress }: Unfinished, nowMs: number): SettleRecord | undefined {
  const last = attempts.at(-1)
  if (!last) return undefined
  const cost = Math.min(progress ?? 0, open.amount)
  const doubts = progress === undefined ? attempts : attempts.slice(0, -1)
  return {
    kind: 'settle',
    rid: open.rid,
    timeMs: nowMs,
    userId: open.userId,
    tokenId: open.tokenId,
    channelId: last.channelId,
    cost,
    overrun: 0,
    userLeased: Math.min(cost, open.userLeased),
    tokenLeased: Math.min(cost, open.tokenLeased),
    doubts: doubts.map(({ channelId, estimate }) => ({
      channelId,
      amount: estimate,
      reason: 'the gateway ended while the request ran',
    })),
    log: {
      tokenName: open.tokenName,
      model: open.model,
      promptTokens: 0,
      completionTokens: 0,
      useTimeMs: Math.max(0, nowMs - open.timeMs),
      isStream: open.isStream,
      address: open.address,
      isError: progress === undefined,
      content: 'recovered after the gateway ended while the request ran',
      upstreamRequestId: '',
      other: { source: 'recovered' },
    },
  }
}

/** Brings the store up to the journal. It may itself be killed: run again, it comes to the same books. */
export async function recover({ nodeId, journal, books, nowMs }: RecoveryDeps): Promise<void> {
  const { appliedLsn, oldestOpenLsn } = await books.openNode(nodeId, Math.floor(nowMs() / 1000))
  const unfinished = new Map<string, Unfinished>()
  const settled: Numbered<SettleRecord>[] = []
  // Holds may have been opened before the position and ended after it: the oldest such one is where to begin.
  for (const { lsn, record } of journal.readAfter(Math.min(oldestOpenLsn - 1, appliedLsn))) {
    if (record.kind === 'open')
      unfinished.set(record.rid, { open: record, attempts: [], progress: undefined })
    else if (record.kind === 'attempt') unfinished.get(record.rid)?.attempts.push(record)
    else if (record.kind === 'progress') {
      const known = unfinished.get(record.rid)
      if (known) known.progress = record.cost
    } else {
      unfinished.delete(record.rid)
      if (record.kind === 'settle' && lsn > appliedLsn) settled.push({ lsn, record })
    }
  }
  for (const each of unfinished.values()) {
    const ending = endingOf(each, nowMs())
    const { lsn } = journal.append(ending ?? { kind: 'release', rid: each.open.rid })
    if (ending) settled.push({ lsn, record: ending })
  }
  journal.flush()
  for (let start = 0; start < settled.length; start += BATCH) {
    const batch = settled.slice(start, start + BATCH)
    const lastLsn = batch.at(-1)?.lsn ?? appliedLsn
    await books.apply(nodeId, { settled: batch, lastLsn, oldestOpenLsn: lastLsn + 1 })
  }
  journal.markApplied(Math.max(appliedLsn, settled.at(-1)?.lsn ?? 0))
  await books.giveBackAll(nodeId)
}
