import type { Books, Lease, OpenedLease } from './books.ts'
import type { Journal } from './journal.ts'
import type { AttemptRecord, Numbered, OpenRecord, SettleRecord } from './record.ts'

type Unfinished = { lsn: number; open: OpenRecord; attempts: AttemptRecord[]; progress: number | undefined }

type RecoveryDeps = {
  readonly nodeId: string
  readonly journal: Journal
  readonly books: Books
  nowMs(): number
  /** Told of records that are in the store and in no file any more. */
  onLost(what: string): void
}

const BATCH = 512

/** A video job goes on only after a refusal, so that no attempt but the last is in doubt. */
function doubtfulOf({ open, attempts, progress }: Pick<Unfinished, 'open' | 'attempts' | 'progress'>) {
  if (open.videoId !== undefined) return attempts.slice(-1)
  return progress === undefined ? attempts : attempts.slice(0, -1)
}

/**
 * Ends what a killed process left open, each in exactly one entry: never sent, released; sent and nothing delivered,
 * the user pays nothing and the estimate stands in doubt; delivered in part, what was delivered is paid.
 */
function endingOf({ open, attempts, progress }: Unfinished, nowMs: number): SettleRecord | undefined {
  const last = attempts.at(-1)
  if (!last) return undefined
  const cost = Math.min(progress ?? 0, open.amount)
  const doubts = doubtfulOf({ open, attempts, progress })
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
    ...(open.videoId !== undefined && { video: { id: open.videoId, outcome: 'doubt' } }),
  }
}

/**
 * A settlement takes from the lease what the node held for it. A store that was restored from a backup knows an
 * older lease: what it does not cover is paid all the same, and no lease goes below zero.
 */
function createCover(leases: readonly Lease[]) {
  const left = new Map(leases.map(({ kind, ownerId, amount }) => [`${kind}:${ownerId}`, amount]))
  const take = (account: string, want: number) => {
    const has = left.get(account) ?? 0
    const taken = Math.min(want, has)
    left.set(account, has - taken)
    return taken
  }
  return (record: SettleRecord): SettleRecord => ({
    ...record,
    userLeased: take(`user:${record.userId}`, record.userLeased),
    tokenLeased: take(`token:${record.tokenId}`, record.tokenLeased),
  })
}

/** Brings the store up to the journal. It may itself be killed: run again, it comes to the same books. */
export async function recover({
  nodeId,
  journal,
  books,
  nowMs,
  onLost,
}: RecoveryDeps): Promise<Pick<OpenedLease, 'appliedLsn' | 'epoch'>> {
  const { appliedLsn, oldestOpenLsn, epoch } = await books.openNode(nodeId, Math.floor(nowMs() / 1000))
  // Holds may have been opened before the position and ended after it: the oldest such one is where to begin.
  const after = Math.min(oldestOpenLsn - 1, appliedLsn)
  const lost = journal.resume({ after, appliedLsn })
  for (const what of lost) onLost(what)
  const cover = createCover(await books.leasesOf(nodeId))
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
      const known = unfinished.get(record.rid)
      if (known) known.progress = record.cost
    } else {
      unfinished.delete(record.rid)
      if (record.kind === 'settle' && lsn > appliedLsn) settled.push({ lsn, record: cover(record) })
    }
    if (settled.length === BATCH) await apply()
  }

  // The end of a request may be among what was lost, and its entry in the store.
  const ended = lost.length > 0 ? await books.settledAmong([...unfinished.keys()]) : new Set<string>()
  const endings: Numbered<SettleRecord>[] = []
  for (const each of unfinished.values()) {
    const { rid } = each.open
    const ending = ended.has(rid) ? undefined : endingOf(each, nowMs())
    const { lsn } = journal.append(ending ?? { kind: 'release', rid })
    if (ending) endings.push({ lsn, record: cover(ending) })
  }
  journal.flush()
  // From here on the journal itself says how each of them ended.
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
