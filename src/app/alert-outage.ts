import type { Logger } from 'pino'
import { isQuiet } from '../alerts/quiet-hours.ts'
import { type AlertState, stepAlert } from '../alerts/state.ts'
import type { AlertRule, Notice } from '../domain/alert.ts'
import type { AlertTargetRow } from '../store/engine/schema.ts'
import type { ObserveRule } from './alert-conditions.ts'
import type { SendAlert } from './alert-sender.ts'

/** The kind of rule that can be observed without the store. */
const KIND = 'journal_lag'
/** Messages that wait for their target. */
const MAX_WAITING = 100

type OutageDeps = {
  observe: ObserveRule
  send: SendAlert
  readonly machine: string
  readonly now: () => number
  readonly log: Pick<Logger, 'warn'>
}

/** Whether a rule sends to a target. */
export const takes = ({ target_ids }: AlertRule, targetId: number) =>
  target_ids === null || target_ids.includes(targetId)

/**
 * The alert about journal lag while the store is unavailable: then its state cannot be stored, and its message cannot be
 * queued. It uses the rules and targets that were read last, keeps its state in memory, and sends directly.
 */
export function createOutageAlert({ observe, send, machine, now, log }: OutageDeps) {
  let rules: readonly AlertRule[] = []
  let targets: readonly AlertTargetRow[] = []
  const states = new Map<number, AlertState>()
  let waiting: { readonly target: AlertTargetRow; readonly notice: Notice }[] = []

  async function step(rule: AlertRule, time: number): Promise<void> {
    const [observation] = (await observe(rule, time)).observations
    const state = states.get(rule.id)
    const { next, notice } = stepAlert({ state, observation, rule, now: time, isQuiet: isQuiet(rule, time) })
    if (next) states.set(rule.id, next)
    else states.delete(rule.id)
    const last = next ?? state
    if (!notice || !last) return
    const { id, name, kind } = rule
    const subject = observation?.subject ?? `machine:${machine}`
    const about = { state: notice, kind, rule_id: id, rule: name, subject, time }
    for (const target of targets)
      if (takes(rule, target.id))
        waiting.push({ target, notice: { ...about, since: last.since, values: last.values } })
    waiting = waiting.slice(-MAX_WAITING)
  }

  async function sendWaiting(): Promise<void> {
    const failed: typeof waiting = []
    for (const each of waiting) {
      const message = { id: 0, time: each.notice.time, machine, notices: [each.notice], omitted: 0 }
      const error = await send(each.target, message).then(
        result => (result.isSent ? undefined : result.error),
        (reason: Error) => reason.message,
      )
      if (error === undefined) continue
      log.warn({ target: each.target.name, reason: error }, 'An alert could not be delivered. Retrying.')
      failed.push(each)
    }
    waiting = failed
  }

  return {
    /** Called with every successful evaluation. */
    remember(currentRules: readonly AlertRule[], currentTargets: readonly AlertTargetRow[]): void {
      rules = currentRules.filter(({ kind }) => kind === KIND)
      targets = currentTargets
      for (const id of states.keys()) if (!rules.some(rule => rule.id === id)) states.delete(id)
    },
    /** Whether the alert of a rule began while the store was unavailable, and must end here. */
    covers: ({ id }: AlertRule) => states.has(id),
    isActive: () => states.size > 0 || waiting.length > 0,
    async run(): Promise<void> {
      for (const rule of rules) await step(rule, now())
      await sendWaiting()
    },
  }
}
