import type { Logger } from 'pino'
import type { AlertMessage } from '../alerts/message.ts'
import { isQuiet } from '../alerts/quiet-hours.ts'
import { type AlertState, stepAlert } from '../alerts/state.ts'
import { type AlertRule, alertKind, type Notice, type Observation } from '../domain/alert.ts'
import { mapConcurrently } from '../domain/map-concurrently.ts'
import type { AlertStateRow, AlertTargetRow } from '../store/engine/schema.ts'
import { type Db, type Engine, type Trx, transact } from '../store/engine/store.ts'
import { type AlertDelivery, claimDue, concludeDelivery, enqueue } from '../store/records/alert-deliveries.ts'
import { enabledRules } from '../store/records/alert-rules.ts'
import {
  deleteState,
  insertState,
  keepStatesOf,
  lockStates,
  readStates,
  replaceState,
  takeLease,
  updateState,
} from '../store/records/alert-states.ts'
import { enabledTargets, findTarget, optionsOfTarget } from '../store/records/alert-targets.ts'
import { machineSubject, type ObservedConditions, type ObserveRule } from './alert-conditions.ts'
import { createOutageAlert, OUTAGE_KIND, takes } from './alert-outage.ts'
import type { SendAlert, SendResult } from './alert-sender.ts'

const EVALUATE_EVERY_MS = 15_000
const DELIVER_EVERY_MS = 2_000
/** A machine that ends gives up the evaluation of rules about the store after this time. */
const LEASE_S = 60
const LEASE = 'rules'
/** An alert about a machine that no longer reports is resolved after this time. */
const SILENT_S = 600
/** How often the state of an alert about a machine is confirmed. */
const SEEN_EVERY_S = 60
const CLAIM_S = 120
const DELIVERIES_AT_ONCE = 10
const CONCURRENT_DELIVERIES = 5
/** docs/reference/alerts.md: Deliveries. */
export const MAX_ATTEMPTS = 10
const FIRST_RETRY_S = 15
const MAX_RETRY_S = 3_600

export type AlertDeps = {
  readonly db: Db
  readonly engine: Engine
  observe: ObserveRule
  send: SendAlert
  /** The name of this machine in messages. */
  readonly machine: string
  /** Identifies this process and its successors on the same data directory. */
  readonly holder: string
  readonly now: () => number
  readonly log: Pick<Logger, 'error' | 'warn'>
}

type Evaluated = { readonly rule: AlertRule; readonly conditions: ObservedConditions }
/** A change of one state, and the notice that it causes. */
type StateChange = {
  readonly rule: AlertRule
  readonly before: AlertStateRow | undefined
  readonly after: AlertStateRow | undefined
  readonly notice: Notice | undefined
}

const stateOf = (row: AlertStateRow): AlertState => ({
  since: row.since,
  firedTime: row.fired_time,
  clearedTime: row.cleared_time,
  notifiedTime: row.notified_time,
  values: JSON.parse(row.observed) as Observation['values'],
})

const isSame = (row: AlertStateRow | undefined, other: AlertStateRow | undefined) =>
  row === other ||
  (row !== undefined &&
    other !== undefined &&
    Object.entries(other).every(([name, value]) => row[name as keyof AlertStateRow] === value))

const keyOf = (ruleId: number, subject: string) => `${ruleId} ${subject}`

/** Evaluates the rules, keeps the state of each alert in the store, and sends the messages. */
export function createAlerts({ db, engine, observe, send, machine, holder, now, log }: AlertDeps) {
  const own = machineSubject(machine)
  const outage = createOutageAlert({ observe, send, machine, now, log })

  function rowOf(rule: AlertRule, subject: string, state: AlertState, seenTime: number): AlertStateRow {
    return {
      rule_id: rule.id,
      subject,
      since: state.since,
      fired_time: state.firedTime,
      cleared_time: state.clearedTime,
      notified_time: state.notifiedTime,
      seen_time: seenTime,
      observed: JSON.stringify(state.values),
    }
  }

  /** Whether this machine decides about a subject that it has not observed. */
  function mayClear({ rule, conditions }: Evaluated, row: AlertStateRow, isLeader: boolean, time: number) {
    if (!conditions.isComplete) return false
    if (!alertKind(rule.kind).isLocal || row.subject === own) return true
    return isLeader && row.seen_time < time - SILENT_S
  }

  function changeOf(
    { rule }: Evaluated,
    {
      subject,
      row,
      observation,
    }: { subject: string; row: AlertStateRow | undefined; observation?: Observation | undefined },
    { time, quiet }: { readonly time: number; readonly quiet: boolean },
  ): StateChange | undefined {
    const state = row && stateOf(row)
    const { next, notice } = stepAlert({ state, observation, rule, now: time, isQuiet: quiet })
    const values = observation?.values ?? state?.values ?? {}
    const isLocal = alertKind(rule.kind).isLocal === true
    const lastSeen = row?.seen_time ?? time
    const isUnconfirmed = isLocal && observation !== undefined && time - lastSeen >= SEEN_EVERY_S
    const after = next && rowOf(rule, subject, next, isUnconfirmed ? time : lastSeen)
    if (!notice && isSame(row, after)) return undefined
    const since = state?.since ?? time
    return {
      rule,
      before: row,
      after,
      notice: notice && {
        state: notice,
        kind: rule.kind,
        rule_id: rule.id,
        rule: rule.name,
        subject,
        since,
        time,
        values,
      },
    }
  }

  /** The changes of states that follow from the conditions. */
  function changesOf(
    evaluated: readonly Evaluated[],
    rows: readonly AlertStateRow[],
    { isLeader, time }: { isLeader: boolean; time: number },
  ): StateChange[] {
    const rowsByKey = new Map(rows.map(row => [keyOf(row.rule_id, row.subject), row]))
    const changes: (StateChange | undefined)[] = []
    for (const each of evaluated) {
      const { rule, conditions } = each
      const observed = new Set(conditions.observations.map(({ subject }) => subject))
      const at = { time, quiet: isQuiet(rule, time) }
      for (const observation of conditions.observations) {
        const { subject } = observation
        changes.push(
          changeOf(each, { subject, row: rowsByKey.get(keyOf(rule.id, subject)), observation }, at),
        )
      }
      for (const row of rows)
        if (row.rule_id === rule.id && !observed.has(row.subject) && mayClear(each, row, isLeader, time))
          changes.push(changeOf(each, { subject: row.subject, row }, at))
    }
    return changes.filter(change => change !== undefined)
  }

  /** Writes a change. False if another machine was first. */
  async function write(trx: Trx, { before, after }: StateChange): Promise<boolean> {
    if (!before) return after === undefined || insertState(trx, after)
    await (after ? updateState(trx, after) : deleteState(trx, before))
    return true
  }

  /** The states and the messages about them change in one transaction, so that none is lost or repeated. */
  async function apply(
    evaluated: readonly Evaluated[],
    targets: readonly AlertTargetRow[],
    context: { isLeader: boolean; time: number },
  ): Promise<void> {
    const ruleIds = evaluated.map(({ rule }) => rule.id)
    if (changesOf(evaluated, await readStates(db, ruleIds), context).length === 0) return
    await transact(db, async trx => {
      const changes = changesOf(evaluated, await lockStates(trx, engine, ruleIds), context)
      const notices: { readonly rule: AlertRule; readonly notice: Notice }[] = []
      for (const change of changes)
        if ((await write(trx, change)) && change.notice)
          notices.push({ rule: change.rule, notice: change.notice })
      for (const target of targets) {
        const due = notices.filter(({ rule }) => takes(rule, target.id)).map(({ notice }) => notice)
        if (due.length === 0) continue
        const sendTime = context.time + optionsOfTarget(target).group_seconds
        await enqueue(trx, { targetId: target.id, notices: due, now: context.time, sendTime })
      }
    })
  }

  async function conditionsOf(rule: AlertRule, time: number): Promise<Evaluated[]> {
    try {
      return [{ rule, conditions: await observe(rule, time) }]
    } catch (error) {
      log.error({ err: error, rule: rule.name }, 'An alert rule could not be evaluated. Retrying in 15 s.')
      return []
    }
  }

  /** Stores what happened while the store was unavailable: from now on the queue retries the messages. */
  async function takeOverFromOutage(
    rules: readonly AlertRule[],
    targets: readonly AlertTargetRow[],
  ): Promise<void> {
    const report = outage.report()
    if (!report) return
    const time = now()
    await transact(db, async trx => {
      await lockStates(trx, engine, [...report.states.keys()])
      for (const [ruleId, state] of report.states) {
        const rule = rules.find(({ id }) => id === ruleId)
        if (rule && state) await replaceState(trx, rowOf(rule, own, state, time))
        else await deleteState(trx, { rule_id: ruleId, subject: own })
      }
      for (const { id } of targets) {
        const notices = report.waiting.filter(({ target }) => target.id === id).map(({ notice }) => notice)
        if (notices.length > 0) await enqueue(trx, { targetId: id, notices, now: time, sendTime: time })
      }
    })
    outage.forget()
  }

  /** Reads what the alert about the journal needs if the store becomes unavailable. */
  async function prepareForOutage(
    rules: readonly AlertRule[],
    targets: readonly AlertTargetRow[],
  ): Promise<void> {
    const ids = rules.filter(({ kind }) => kind === OUTAGE_KIND).map(({ id }) => id)
    const rows = (await readStates(db, ids)).filter(({ subject }) => subject === own)
    outage.remember({ rules, targets, states: new Map(rows.map(row => [row.rule_id, stateOf(row)])) })
  }

  /** Evaluates all rules. Without a target nothing is evaluated. */
  async function evaluateWithStore(): Promise<void> {
    const time = now()
    const targets = await enabledTargets(db)
    const rules = await enabledRules(db)
    await takeOverFromOutage(rules, targets)
    if (targets.length === 0) {
      await keepStatesOf(db, [])
      return prepareForOutage([], [])
    }
    const lease = { name: LEASE, holder, now: time, untilTime: time + LEASE_S }
    const isLeader = engine === 'sqlite' || (await takeLease(db, lease))
    if (isLeader)
      await keepStatesOf(
        db,
        rules.map(({ id }) => id),
      )
    const evaluated: Evaluated[] = []
    for (const rule of rules)
      if (isLeader || alertKind(rule.kind).isLocal) evaluated.push(...(await conditionsOf(rule, time)))
    await apply(evaluated, targets, { isLeader, time })
    await prepareForOutage(rules, targets)
  }

  /** While the store is unavailable, only the alert about that is evaluated. */
  async function evaluate(): Promise<void> {
    try {
      await evaluateWithStore()
    } catch (error) {
      await outage.run()
      throw error
    }
  }

  const messageOf = ({ id, created_time, notices, omitted }: AlertDelivery): AlertMessage => ({
    id,
    time: created_time,
    machine,
    notices,
    omitted,
  })

  async function deliverOne(delivery: AlertDelivery): Promise<void> {
    const target = await findTarget(db, delivery.target_id)
    const attempts = delivery.attempts + 1
    const ended = { attempts, next_time: delivery.next_time, ended_time: now() }
    if (!target?.enabled)
      return concludeDelivery(db, delivery.id, {
        ...ended,
        status: 'dead',
        last_error: 'The target is disabled.',
      })
    const result = await send(target, messageOf(delivery))
    if (result.isSent)
      return concludeDelivery(db, delivery.id, {
        ...ended,
        status: 'sent',
        ended_time: now(),
        last_error: '',
      })
    const isDead = attempts >= MAX_ATTEMPTS
    log.warn(
      { target: target.name, delivery: delivery.id, attempts, reason: result.error },
      isDead
        ? 'An alert could not be delivered. It is not retried.'
        : 'An alert could not be delivered. Retrying.',
    )
    const backoffS = Math.min(MAX_RETRY_S, FIRST_RETRY_S * 2 ** (attempts - 1))
    return concludeDelivery(db, delivery.id, {
      attempts,
      status: isDead ? 'dead' : 'pending',
      next_time: now() + Math.max(backoffS, result.retryAfterS ?? 0),
      ended_time: isDead ? now() : null,
      last_error: result.error,
    })
  }

  /** Sends the messages that are due. */
  async function deliver(): Promise<void> {
    const due = await claimDue(db, { now: now(), untilTime: now() + CLAIM_S, limit: DELIVERIES_AT_ONCE })
    await mapConcurrently(due, CONCURRENT_DELIVERIES, delivery =>
      // Its claim expires, and it is sent again.
      deliverOne(delivery).catch(error =>
        log.error({ err: error, delivery: delivery.id }, 'The delivery of an alert failed. Retrying.'),
      ),
    )
  }

  /** Runs work at an interval. Runs never overlap: the store or a receiver may be slow. */
  function repeat(work: () => Promise<void>, everyMs: number, failure: string) {
    let running: Promise<void> | undefined
    let isFailing = false
    const run = () => {
      running ??= work()
        .then(
          () => {
            isFailing = false
          },
          error => {
            // Logged once for an outage.
            if (!isFailing) log.error({ err: error }, failure)
            isFailing = true
          },
        )
        .finally(() => {
          running = undefined
        })
    }
    const timer = setInterval(run, everyMs)
    timer.unref()
    return async (): Promise<void> => {
      clearInterval(timer)
      await running
    }
  }

  return {
    evaluate,
    deliver,
    /** Starts the timers. Returns a function that stops them and waits for the current run. */
    start(): () => Promise<void> {
      const stopEvaluating = repeat(evaluate, EVALUATE_EVERY_MS, 'The alert rules could not be evaluated.')
      const stopDelivering = repeat(deliver, DELIVER_EVERY_MS, 'Alerts could not be delivered.')
      return async () => {
        await Promise.all([stopEvaluating(), stopDelivering()])
      }
    },
  }
}

/** Sends a test message to a target. */
export const createAlertTest =
  ({ send, machine, now }: Pick<AlertDeps, 'send' | 'machine' | 'now'>) =>
  (target: AlertTargetRow): Promise<SendResult> =>
    send(target, { id: 0, time: now(), machine, notices: [], omitted: 0 })
