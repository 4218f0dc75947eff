import type { Logger } from 'pino'
import { isQuiet } from '../alerts/quiet-hours.ts'
import { type AlertState, stepAlert } from '../alerts/state.ts'
import type { AlertRule, Notice } from '../domain/alert.ts'
import { mapConcurrently } from '../domain/map-concurrently.ts'
import type { AlertTargetRow } from '../store/engine/schema.ts'
import { machineSubject, type ObserveRule } from './alert-conditions.ts'
import type { SendAlert } from './alert-sender.ts'

/** The kind of rule that can be observed without the store. */
export const OUTAGE_KIND = 'journal_lag'
/** Messages that wait for their target. */
const MAX_WAITING = 100
const CONCURRENT_DELIVERIES = 5

type OutageDeps = {
  observe: ObserveRule
  send: SendAlert
  readonly machine: string
  readonly now: () => number
  readonly log: Pick<Logger, 'warn'>
}

/** What is known of the rules about the journal when the store was last available. */
type StoredAlerts = {
  readonly rules: readonly AlertRule[]
  readonly targets: readonly AlertTargetRow[]
  /** The states of this machine, by rule. */
  readonly states: ReadonlyMap<number, AlertState>
}

type WaitingNotice = { readonly target: AlertTargetRow; readonly notice: Notice }

/** Whether a rule sends to a target. */
export const takes = ({ target_ids }: AlertRule, targetId: number) =>
  target_ids === null || target_ids.includes(targetId)

/**
 * The alert about journal lag while the store is unavailable: then its state cannot be stored, and its message cannot be
 * queued. It continues from what was read last, keeps its state in memory, and sends directly. When the store is back, it
 * hands everything over.
 */
export function createOutageAlert({ observe, send, machine, now, log }: OutageDeps) {
  let stored: StoredAlerts = { rules: [], targets: [], states: new Map() }
  /** The states since the store is unavailable; undefined: the alert has ended. */
  const states = new Map<number, AlertState | undefined>()
  let waiting: WaitingNotice[] = []

  async function step(rule: AlertRule, time: number): Promise<void> {
    const [observation] = (await observe(rule, time)).observations
    const state = states.has(rule.id) ? states.get(rule.id) : stored.states.get(rule.id)
    const { next, notice } = stepAlert({ state, observation, rule, now: time, isQuiet: isQuiet(rule, time) })
    states.set(rule.id, next)
    const last = next ?? state
    if (!notice || !last) return
    const { id, name, kind } = rule
    const subject = machineSubject(machine)
    const about = { state: notice, kind, rule_id: id, rule: name, subject, time }
    for (const target of stored.targets)
      if (takes(rule, target.id))
        waiting.push({ target, notice: { ...about, since: last.since, values: last.values } })
    waiting = waiting.slice(-MAX_WAITING)
  }

  /** Whether the target has accepted the notice. */
  async function trySend({ target, notice }: WaitingNotice): Promise<boolean> {
    const message = { id: 0, time: notice.time, machine, notices: [notice], omitted: 0 }
    const error = await send(target, message).then(
      result => (result.isSent ? undefined : result.error),
      (reason: Error) => reason.message,
    )
    if (error !== undefined)
      log.warn({ target: target.name, reason: error }, 'An alert could not be delivered. Retrying.')
    return error === undefined
  }

  return {
    /** Called with every successful evaluation. */
    remember(current: StoredAlerts): void {
      stored = { ...current, rules: current.rules.filter(({ kind }) => kind === OUTAGE_KIND) }
    },
    /** Evaluates the rules while the store is unavailable. */
    async run(): Promise<void> {
      for (const rule of stored.rules) await step(rule, now())
      const all = waiting
      const areSent = await mapConcurrently(all, CONCURRENT_DELIVERIES, trySend)
      waiting = all.filter((_notice, index) => !areSent[index])
    },
    /** What happened while the store was unavailable; undefined if nothing did. */
    report: () => (states.size === 0 && waiting.length === 0 ? undefined : { states, waiting }),
    /** The report is in the store. */
    forget(): void {
      states.clear()
      waiting = []
    },
  }
}
