import type { Books, Lease, NodePosition } from './books.ts'
import type { Journal } from './journal.ts'
import type { AttemptRecord, Numbered, OpenRecord, SettleRecord } from './record.ts'

type Unfinished = { lsn: number; open: OpenRecord; attempts: AttemptRecord[]; progress: number | undefined }

type RecoveryDeps = {
  readonly nodeId: string
  readonly journal: Journal
  readonly books: Books
  nowMs(): number
  /** Called for records that the store has and the journal no longer has. */
  onLost(what: string): void
}

const BATCH = 512

/** A video job is sent to the next channel only after a refusal, so only its last attempt can be unresolved. */
function unresolvedAttempts({
  open,
  attempts,
  progress,
}: Pick<Unfinished, 'open' | 'attempts' | 'progress'>) {
  if (open.videoId !== undefined) return attempts.slice(-1)
  return progress === undefined ? attempts : attempts.slice(0, -1)
}

/**
 * Ends a request that a killed process left open, in exactly one entry. Never sent: its hold is released (undefined). Sent
 * and nothing delivered: the user pays nothing and the estimate is an unresolved charge. Delivered in part: the user pays
 * for that part.
 */
function endingOf({ open, attempts, progress }: Unfinished, nowMs: number): SettleRecord | undefined {
  const last = attempts.at(-1)
  if (!last) return undefined
  const cost = Math.min(progress ?? 0, open.amount)
  const doubts = unresolvedAttempts({ open, attempts, progress })
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
 * A settlement reduces the lease by the amount that was held for it. A store that was restored from a backup has an older
 * lease, which may be smaller: the cost is charged in full, and the lease is reduced to zero at most.
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

/** Applies the journal to the store. It may itself be killed: run again, it produces the same entries. */
export async function recover({
  nodeId,
  journal,
  books,
  nowMs,
  onLost,
}: RecoveryDeps): Promise<Pick<NodePosition, 'appliedLsn' | 'epoch'>> {
  const { appliedLsn, oldestOpenLsn, epoch } = await books.openNode(nodeId, Math.floor(nowMs() / 1000))
  // Requests may have started before the applied position and ended after it: reading starts at the oldest of them.
  const after = Math.min(oldestOpenLsn - 1, appliedLsn)
  const lost = journal.resume({ after, appliedLsn })
  for (const what of lost) onLost(what)
  const capToLease = createLeaseCap(await books.leasesOf(nodeId))
  const unfinished = new Map<string, Unfinished>()
  let settled: Numbered<SettleRecord>[] = []
  let last = appliedLsn

  async function apply(): Promise<void> {
    const lastLsn = settled.at(-1)?.lsn
    if (lastLsn === undefined) return
    const [oldest] = unfinished.values()
    const bodies = settled.map(({ record }) => JSON.stringify(record))
    const oldestOpen = oldest?.lsn ?? lastLsn + 1
    await books.apply(nodeId, { settled: bodies, afterLsn: last, lastLsn, oldestOpenLsn: oldestOpen })
    settled = []
    last = lastLsn
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

  // The end of a request may be among the missing records while the store has its entry.
  const ended = lost.length > 0 ? await books.settledAmong([...unfinished.keys()]) : new Set<string>()
  const endings: Numbered<SettleRecord>[] = []
  for (const each of unfinished.values()) {
    const { rid } = each.open
    const ending = ended.has(rid) ? undefined : endingOf(each, nowMs())
    const { lsn } = journal.append(ending ?? { kind: 'release', rid })
    if (ending) endings.push({ lsn, record: capToLease(ending) })
  }
  journal.flush()
  // From here on the journal itself has the end of each of them.
  unfinished.clear()
  await apply()
  for (let start = 0; start < endings.length; start += BATCH) {
    settled = endings.slice(start, start + BATCH)
    await apply()
  }
  journal.markNeededAfter(last)
  await books.giveBackAll(nodeId)
  return { appliedLsn: last, epoch }
}
