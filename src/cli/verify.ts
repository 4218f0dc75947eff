import { type ChainReport, createChainVerifier, verifyChain } from '../ledger/verify.ts'
import { entriesAfter, entryFields } from '../store/books/accounts.ts'
import { CHAIN_START } from '../store/books/books.ts'
import { chainKeyOf } from '../store/books/chain-key.ts'
import { CHAIN_KEYED } from '../store/books/chain-upgrade.ts'
import { AUDIT_CHAIN, findChain, listChains, STORE_CHAIN } from '../store/books/chains.ts'
import { countEntries } from '../store/books/entries.ts'
import { writeMeta } from '../store/engine/meta.ts'
import type { RowState } from '../store/engine/row-states.ts'
import type { AuditRow, EntryRow } from '../store/engine/schema.ts'
import { type Trx, transact } from '../store/engine/store.ts'
import { auditAfter, auditFields, unkeyedAuditFields } from '../store/records/audit.ts'
import { listUnretired } from '../store/records/nodes.ts'
import { CommandError, type OperationDeps, type Report } from './command.ts'
import type { JournalJob, JournalReport } from './journal-thread.ts'
import { runThread } from './thread.ts'
import {
  type Acceptance,
  describeLost,
  type GatheredAnchors,
  gatherAnchors,
  lostHeads,
  placesOf,
} from './verify-anchors.ts'
import { createBalances } from './verify-entries.ts'
import { createSettlementTail, type SettlementTail } from './verify-journals.ts'
import { verifyHeld, verifyRows } from './verify-rows.ts'

export type VerifyOptions = {
  readonly auditOnly?: boolean
  /** A copy of the anchors from another place. */
  readonly anchorFile?: string
  /** Why the operator accepts the loss of anchored records in a restore. */
  readonly acceptRestore?: string
}

const ACCEPT_RESTORE = 'books.accept_restore'
const MAX_REASON = 500
const NODE_CHAIN = 'node:'
/** The report lists at most so many faults of each kind, and always their number. */
const MAX_LISTED = 20

const chainLine = ({ chain, links, unkeyed, fault }: ChainReport) => {
  if (fault !== undefined) return `${chain}: BROKEN after ${links} records: ${fault}`
  const whole = `${chain}: ${links} records, unbroken`
  return unkeyed === 0
    ? whole
    : `${whole}; the first ${unkeyed} are from before the upgrade and were checked without a key`
}

/** The lines of the report, and which of them are faults. */
function createFindings() {
  const lines: string[] = []
  const faults: string[] = []
  return {
    lines,
    faults,
    note: (line: string): void => void lines.push(line),
    line(text: string, isGood: boolean): void {
      lines.push(text)
      if (!isGood) faults.push(text)
    },
    /** Faults of one kind, or the line to report where there are none. */
    add(newFaults: readonly string[], otherwise?: string): void {
      for (const fault of newFaults) faults.push(fault)
      if (newFaults.length === 0 && otherwise !== undefined) lines.push(otherwise)
      lines.push(...newFaults.slice(0, MAX_LISTED))
      if (newFaults.length > MAX_LISTED) lines.push(`and ${newFaults.length - MAX_LISTED} more like these`)
    },
  }
}

type Findings = ReturnType<typeof createFindings>

const nodeLabel = ({ id, name }: { readonly id: string; readonly name: string | null }) =>
  name ? `${id} (${name})` : id

/** Recomputes chains and balances, compares them with journals, anchors and rows, and reports every check. */
export function createVerify({ db, now, dataDir, anchorFile: ownFile, record }: VerifyDeps) {
  /** Verifies the audit log and collects its information about chains, rows and accepted restores. */
  function createAuditReading(anchors: GatheredAnchors) {
    const states = new Map<string, string>()
    const chains = new Set<string>()
    const acceptances: Acceptance[] = []
    const source = {
      name: AUDIT_CHAIN,
      head: () => findChain(db, AUDIT_CHAIN),
      after: (seq: number, limit: number) => auditAfter(db, seq, limit),
      fieldsOf: auditFields,
      unkeyedFieldsOf: unkeyedAuditFields,
      isFirstKeyed: ({ action }: AuditRow) => action === CHAIN_KEYED,
    }
    const verifyLinks = createChainVerifier<AuditRow>(source, chainKeyOf(db))

    function take(row: AuditRow, isKeyed: boolean): void {
      anchors.index.compare(AUDIT_CHAIN, row)
      if (!isKeyed) return
      if (row.state !== null)
        for (const [name, digest] of JSON.parse(row.state) as RowState[]) states.set(name, digest)
      if (row.action === CHAIN_START) chains.add(row.target.slice('chain:'.length))
      if (row.action === CHAIN_KEYED && row.after !== null)
        for (const name of (JSON.parse(row.after) as { chains: string[] }).chains) chains.add(name)
      if (row.action === ACCEPT_RESTORE && row.after !== null) {
        acceptances.push({ time: row.time, ...(JSON.parse(row.after) as Omit<Acceptance, 'time'>) })
      }
    }
    return { goOn: () => verifyLinks(take), states, chains, acceptances }
  }

  /** Reads the journals of this machine. Those of other machines are verified there. */
  async function readJournals() {
    const heads = (await listChains(db)).filter(({ name }) => name.startsWith(NODE_CHAIN))
    const applied = Object.fromEntries(
      heads.map(({ name, position }) => [name.slice(NODE_CHAIN.length), position]),
    )
    const job: JournalJob = { dataDir, applied }
    const reports = await runThread<JournalReport[]>('journal-thread', job)
    const seqs = new Map(heads.map(({ name, seq }) => [name, seq]))
    const tails = new Map<string, SettlementTail>()
    for (const { node, settled } of reports) {
      const chain = NODE_CHAIN + node
      tails.set(chain, createSettlementTail(settled, seqs.get(chain) ?? 0))
    }
    return { reports, tails }
  }

  const verifyEntryChain = (name: string, each: (entry: EntryRow) => void) =>
    verifyChain<EntryRow>(
      {
        name,
        head: () => findChain(db, name),
        after: (seq, limit) => entriesAfter(db, name, seq, limit),
        fieldsOf: entryFields,
        unkeyedFieldsOf: entryFields,
        isFirstKeyed: ({ kind }) => kind === 'keyed',
      },
      chainKeyOf(db),
      each,
    )

  /** Verifies every chain of entries, and finds entries without a chain. */
  async function verifyEntries(
    anchors: GatheredAnchors,
    tails: ReadonlyMap<string, SettlementTail>,
    recorded: ReadonlySet<string>,
  ) {
    const balances = createBalances(db)
    const faults: string[] = []
    // Count entries before listing chains, so that every counted chain is in the list.
    const counts = await countEntries(db)
    const names = (await listChains(db)).map(({ name }) => name).filter(name => name !== AUDIT_CHAIN)
    for (const { chain, entries } of counts)
      if (!names.includes(chain))
        faults.push(`entries: ${entries} belong to chain "${chain}", which does not exist`)
    for (const name of new Set([STORE_CHAIN, ...recorded]))
      if (!names.includes(name)) faults.push(`${name}: the whole chain is missing`)
    const reports: ChainReport[] = []
    for (const name of names) {
      const tail = tails.get(name)
      const report = await verifyEntryChain(name, entry => {
        balances.add(entry)
        anchors.index.compare(name, entry)
        tail?.meet(entry)
      })
      const lost = report.fault === undefined ? tail?.fault() : undefined
      if (lost !== undefined) faults.push(`${name}: ${lost}`)
      reports.push(report)
    }
    return { reports, faults, ...(await balances.verify()) }
  }

  /** Reads journals and anchors, then verifies every chain against them. */
  async function verifyChains({ auditOnly = false, anchorFile: shippedFile }: VerifyOptions) {
    const journals = auditOnly
      ? { reports: [], tails: new Map<string, SettlementTail>() }
      : await readJournals()
    const key = chainKeyOf(db)
    const anchors = await gatherAnchors({ key, ownFile, shippedFile, journals: journals.reports })
    const reading = createAuditReading(anchors)
    const audit = await reading.goOn()
    const ledger = auditOnly ? undefined : await verifyEntries(anchors, journals.tails, reading.chains)
    return { journals: journals.reports, anchors, reading, audit, ledger }
  }

  type VerifiedChains = Awaited<ReturnType<typeof verifyChains>>

  /** Anchors of a broken chain are ignored: its verification ended before them. */
  function judgeAnchors({ anchors, reading, audit, ledger }: VerifiedChains) {
    const reports = [audit, ...(ledger?.reports ?? [])]
    const ends = new Map(reports.map(({ chain, links }) => [chain, links]))
    const broken = new Set(reports.filter(({ fault }) => fault !== undefined).map(({ chain }) => chain))
    const isVerified = (chain: string) => (ledger ? true : chain === AUDIT_CHAIN) && !broken.has(chain)
    const lost = lostHeads(anchors, isVerified, reading.acceptances)
    return { lost, faults: [...anchors.faults, ...describeLost(lost, chain => ends.get(chain))] }
  }

  async function judgeRows(
    { audit, reading: { states, goOn } }: VerifiedChains,
    findings: Findings,
  ): Promise<void> {
    if (audit.fault !== undefined) return findings.note('rows: not compared, because the audit log is broken')
    const refresh = async () => void (await goOn())
    const { rows, faults } = await verifyRows({ db, key: chainKeyOf(db), states, refresh })
    const kinds = 'users, tokens, channels, aliases, prices and settings'
    findings.add(faults, `rows: ${rows} ${kinds} match the audit log`)
  }

  async function examine(options: VerifyOptions) {
    const verified = await verifyChains(options)
    const { journals, anchors, reading, audit, ledger } = verified
    const findings = createFindings()
    for (const report of [audit, ...(ledger?.reports ?? [])])
      findings.line(chainLine(report), report.fault === undefined)
    const { lost, faults } = judgeAnchors(verified)
    if (!ledger) {
      findings.add(faults)
      return { findings, lost, orphans: [] }
    }
    for (const { ok, line } of journals) findings.line(line, ok)
    const readNodes = new Set(journals.map(({ node }) => node))
    const unseen = (await listUnretired(db)).filter(({ id }) => !readNodes.has(id))
    if (unseen.length > 0)
      findings.note(
        `journals not seen: ${unseen.map(nodeLabel).join(', ')}. Run sluice verify on their machines`,
      )
    findings.add(ledger.faults)
    findings.add(faults, `anchors: ${anchors.index.count()} heads match (${anchors.places.join(', ')})`)
    if (anchors.missingFile !== undefined)
      findings.line(`anchors: the file ${anchors.missingFile} does not exist`, true)
    findings.add(await verifyHeld(db), 'held: the held amount of every account equals the sum of its leases')
    await judgeRows(verified, findings)
    const accepted = new Set(reading.acceptances.flatMap(acceptance => acceptance.accounts))
    const orphans = ledger.orphans.filter(name => !accepted.has(name))
    const drifts = [...ledger.drifts, ...orphans.map(name => `${name}: there are entries but no account`)]
    findings.note(
      drifts.length === 0
        ? `balances: ${ledger.accounts} accounts match their entries`
        : `balances: ${drifts.length} of ${ledger.accounts} accounts do not match their entries`,
    )
    findings.add(drifts)
    return { findings, lost, orphans }
  }

  async function accept(reason: string, options: VerifyOptions): Promise<string> {
    if (reason.trim() === '' || reason.length > MAX_REASON)
      throw new CommandError(`--accept-restore requires a reason of 1 to ${MAX_REASON} characters`)
    const { lost, orphans: accounts } = await examine(options)
    if (lost.length === 0 && accounts.length === 0)
      throw new CommandError('there is nothing to accept: no anchored record is missing')
    const places = placesOf(lost)
    await transact(db, trx => record(trx, ACCEPT_RESTORE, 'books', { reason, places, accounts }))
    const acceptances = [...places.map(({ chain, from, to }) => `${chain} ${from} to ${to}`), ...accounts]
    return `accepted the loss of records in a restore (${acceptances.join(', ')}) and wrote an audit record`
  }

  /** Saved for the alert about failed verifications. A partial check does not clear a fault that a full one found. */
  async function saveResult([fault]: readonly string[], isPartial: boolean): Promise<void> {
    if (isPartial && fault === undefined) return
    const result = {
      ok: fault === undefined,
      ...(fault !== undefined && { fault: fault.slice(0, MAX_REASON) }),
    }
    const saved = JSON.stringify({ time: now(), ...result })
    await writeMeta(db, 'last_verify', saved)
  }

  return async function verify({ acceptRestore, ...options }: VerifyOptions): Promise<Report> {
    const accepted = acceptRestore === undefined ? [] : [await accept(acceptRestore, options)]
    const { lines, faults } = (await examine(options)).findings
    await saveResult(faults, options.auditOnly === true)
    return { ok: faults.length === 0, lines: [...accepted, ...lines], faults }
  }
}

type VerifyDeps = Pick<OperationDeps, 'db' | 'now' | 'dataDir' | 'anchorFile'> & {
  record(trx: Trx, action: string, target: string, after?: unknown): Promise<void>
}
