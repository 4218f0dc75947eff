import type { Books, Lease, NodePosition } from './books.ts'
import type { Journal } from './journal.ts'
import type { AttemptRecord, Numbered, OpenRecord, SettleRecord } from './record.ts'

type UnfinishedRequest = {
  lsn: number
  open: OpenRecord
  attempts: AttemptRecord[]
  progress: number | undefined
}

type RecoveryDeps = {
  readonly nodeId: string
  readonly journal: Journal
  readonly books: Books
  nowMs(): number
  /** Called for each gap in the journal whose records the store has applied already. */
  onMissingRecords(what: string): void
  /** The disk did not take the epoch. The journal may still have room: it has a reserve. */
  onEpochFailure(error: Error): void
}

const BATCH = 512

/** A video job is sent to the next channel only after a refusal, so only its last attempt can be unresolved. */
function unresolvedAttempts({
  open,
  attempts,
  progress,
}: Pick<UnfinishedRequest, 'open' | 'attempts' | 'progress'>) {
  if (open.videoId !== undefined) return attempts.slice(-1)
  return progress === undefined ? attempts : attempts.slice(0, -1)
}

/**
 * The settlement of a request that a killed process left open. Undefined if it was never sent: its hold is released. If it
 * was sent and nothing was delivered, the user pays nothing and the estimate becomes an unresolved charge. If a part was
 * delivered, the user pays for that part, up to the first hold; the rest is overrun.
 */
function endingOf({ open, attempts, progress }: UnfinishedRequest, nowMs: number): SettleRecord | undefined {
  const last = attempts.at(-1)
  if (!last) return undefined
  const delivered = progress ?? 0
  // The journal has no extensions of the hold, so what they covered is not charged.
  const cost = Math.min(delivered, open.amount)
  const doubts = unresolvedAttempts({ open, attempts, progress })
  return {
    kind: 'settle',
    rid: open.rid,
    timeMs: nowMs,
    userId: open.userId,
    tokenId: open.tokenId,
    channelId: last.channelId,
    cost,
    overrun: delivered - cost,
    userLeased: Math.min(cost, open.userLeased),
    tokenLeased: Math.min(cost, open.tokenLeased),
    doubts: doubts.map(({ channelId, estimate }) => ({
      channelId,
      amount: estimate,
      reason: 'The gateway stopped during the request.',
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
      content: 'Recovered after the gateway stopped during the request.',
      upstreamRequestId: '',
      other: { source: 'recovered' },
    },
    ...(open.videoId !== undefined && { video: { id: open.videoId, outcome: 'doubt' } }),
  }
}

/**
 * Limits the amounts that settlements take from leases. A store restored from a backup may have a smaller lease than the
 * journal assumes: the cost is still charged in full, but the lease never becomes negative.
 */
function createLeaseCap(leases: readonly Lease[]) {
  const remaining = new Map(leases.map(({ kind, ownerId, amount }) => [`${kind}:${ownerId}`, amount]))
  const take = (account: string, want: number) => {
    const available = remaining.get(account) ?? 0
    const amount = Math.min(want, available)
    remaining.set(account, available - amount)
    return amount
  }
  return (record: SettleRecord): SettleRecord => ({
    ...record,
    userLeased: take(`user:${record.userId}`, record.userLeased),
    tokenLeased: take(`token:${record.tokenId}`, record.tokenLeased),
  })
}

/** Replays the journal into the store. It is idempotent: after a crash, the next run produces the same entries. */
export async function recover({
  nodeId,
  journal,
  books,
  nowMs,
  onMissingRecords,
  onEpochFailure,
}: RecoveryDeps): Promise<Pick<NodePosition, 'appliedLsn' | 'epoch'>> {
  const { epochFile } = journal
  const time = Math.floor(nowMs() / 1000)
  const { appliedLsn, oldestOpenLsn, epoch } = await books.openNode(nodeId, epochFile.read(), time)
  try {
    epochFile.write(epoch)
  } catch (error) {
    onEpochFailure(error as Error)
  }
  // A request may have started before the applied position and ended after it, so replay starts at the oldest open request.
  const after = Math.min(oldestOpenLsn - 1, appliedLsn)
  const missingRecords = journal.resume({ after, appliedLsn })
  for (const what of missingRecords) onMissingRecords(what)
  const capToLease = createLeaseCap(await books.leasesOf(nodeId))
  const unfinished = new Map<string, UnfinishedRequest>()
  let settled: Numbered<SettleRecord>[] = []
  let lastAppliedLsn = appliedLsn

  async function apply(): Promise<void> {
    const lastLsn = settled.at(-1)?.lsn
    if (lastLsn === undefined) return
    const [oldest] = unfinished.values()
    const records = settled.map(({ record }) => record)
    await books.apply(nodeId, {
      settled: Buffer.from(JSON.stringify(records)),
      afterLsn: lastAppliedLsn,
      lastLsn,
      oldestOpenLsn: Math.min(oldest?.lsn ?? lastLsn + 1, journal.oldestOpenLsn()),
    })
    settled = []
    lastAppliedLsn = lastLsn
  }

  for (const { lsn, record } of journal.readAfter(after)) {
    if (record.kind === 'anchor') continue
    if (record.kind === 'open')
      unfinished.set(record.rid, { lsn, open: record, attempts: [], progress: undefined })
    else if (record.kind === 'attempt') unfinished.get(record.rid)?.attempts.push(record)
    else if (record.kind === 'progress') {
      const request = unfinished.get(record.rid)
      if (request) request.progress = record.cost
    } else {
      unfinished.delete(record.rid)
      if (record.kind === 'settle' && lsn > appliedLsn) settled.push({ lsn, record: capToLease(record) })
    }
    if (settled.length === BATCH) await apply()
  }

  // The settle record of a request may be missing from the journal although the store has applied it.
  const ended =
    missingRecords.length > 0 ? await books.settledAmong([...unfinished.keys()]) : new Set<string>()
  const endings: Numbered<SettleRecord>[] = []
  for (const each of unfinished.values()) {
    const { rid } = each.open
    const ending = ended.has(rid) ? undefined : endingOf(each, nowMs())
    const { lsn } = ending ? journal.append(ending, each.lsn) : journal.append({ kind: 'release', rid })
    if (ending) endings.push({ lsn, record: capToLease(ending) })
  }
  journal.flush()
  // The journal now has the end of each unfinished request, on the disk or in memory if the disk is full.
  unfinished.clear()
  await apply()
  for (let start = 0; start < endings.length; start += BATCH) {
    settled = endings.slice(start, start + BATCH)
    await apply()
  }
  journal.markNeededAfter(lastAppliedLsn)
  await books.returnAllLeases(nodeId)
  return { appliedLsn: lastAppliedLsn, epoch }
}
