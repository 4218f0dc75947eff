import type { Notice, Observation, RuleOptions } from '../domain/alert.ts'

/** The state of a rule for one subject. It is stored, so that a restart neither repeats nor loses an alert. */
export type AlertState = {
  /** First observed. */
  readonly since: number
  /** Observed for `for_seconds`; null before that. */
  readonly firedTime: number | null
  /** No longer observed; null while it is. */
  readonly clearedTime: number | null
  /** The last message; null if none was sent, because of quiet hours. */
  readonly notifiedTime: number | null
  readonly values: Observation['values']
}

type Step = {
  readonly state: AlertState | undefined
  /** Undefined: the condition does not hold now. */
  readonly observation: Observation | undefined
  readonly rule: Pick<RuleOptions, 'for_seconds' | 'repeat_seconds'>
  readonly now: number
  readonly isQuiet: boolean
}

/** The next state, undefined if the alert has ended, and the notice that is due. */
type Outcome = { readonly next: AlertState | undefined; readonly notice?: Notice['state'] }

/** A time that has passed, even if the clock was set back since: otherwise the alert would wait for it again. */
const passed = (time: number | null | undefined, now: number) =>
  time === null || time === undefined ? null : Math.min(time, now)

function stepObserved({ state, rule, now, isQuiet }: Step, { values }: Observation): Outcome {
  const since = passed(state?.since, now) ?? now
  const firedTime = passed(state?.firedTime, now) ?? (now - since >= rule.for_seconds ? now : null)
  const notifiedTime = passed(state?.notifiedTime, now)
  const next = { since, firedTime, clearedTime: null, notifiedTime, values }
  if (firedTime === null || isQuiet) return { next }
  if (next.notifiedTime === null) return { next: { ...next, notifiedTime: now }, notice: 'firing' }
  const isDue = rule.repeat_seconds > 0 && now - next.notifiedTime >= rule.repeat_seconds
  return isDue ? { next: { ...next, notifiedTime: now }, notice: 'still_firing' } : { next }
}

function stepCleared({ rule, now, isQuiet }: Step, state: AlertState): Outcome {
  if (state.firedTime === null) return { next: undefined }
  const next = { ...state, clearedTime: passed(state.clearedTime, now) ?? now }
  if (now - next.clearedTime < rule.for_seconds) return { next }
  // An alert without a first message ends without a last one.
  if (next.notifiedTime === null) return { next: undefined }
  return isQuiet ? { next } : { next: undefined, notice: 'resolved' }
}

/**
 * One evaluation of a rule for a subject. A condition must hold for `for_seconds` before the alert fires, and be absent for
 * as long before it is resolved. Messages that are due in quiet hours wait for their end.
 */
export function stepAlert(step: Step): Outcome {
  if (step.observation) return stepObserved(step, step.observation)
  return step.state ? stepCleared(step, step.state) : { next: undefined }
}
