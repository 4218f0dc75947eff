import { type AlertRule, alertKind, type Observation, timeText } from '../domain/alert.ts'
import { usdText } from '../domain/money.ts'
import { listServed } from '../manage/channels/served.ts'
import { createPriceOf } from '../manage/money/pricing.ts'
import { readMeta } from '../store/engine/meta.ts'
import type { Db } from '../store/engine/store.ts'
import {
  countRequests,
  disabledChannels,
  disabledKeys,
  expiringAccessTokens,
  expiringTokens,
  limitedBalances,
  type RequestCounts,
  sumSuspense,
} from '../store/records/alert-observations.ts'
import { pricesInForce } from '../store/records/prices.ts'
import { namesOf } from '../store/usage/names.ts'
import { groupRollups, ROLLUP_S } from '../store/usage/rollups.ts'
import type { WorkerExit } from '../workers/messages.ts'

/** The subjects of a rule that fire at once. */
const MAX_SUBJECTS = 200
const MAX_VALUE = 300
const NANOS_PER_USD = 1e9
const MIB = 1_048_576
const HOUR_S = 3_600
/** An expired token is reported for a week after its expiry. */
const EXPIRED_S = 7 * 86_400
/** The users whose spending is compared with their balance: those who spend most. */
const MAX_SPENDERS = 1_000

/** What a machine knows about itself. */
export type MachineFacts = {
  readonly name: string
  freeDiskBytes(): number
  /** The longest time that a settled request of any worker has waited for the store, in seconds. */
  journalLagS(): Promise<number>
  workerExits(): Promise<readonly WorkerExit[]>
}

type ConditionDeps = { readonly db: Db; readonly machine: MachineFacts }

/** The subjects for which a rule's condition holds. */
export type ObservedConditions = {
  readonly observations: readonly Observation[]
  /** False if there may be more: then a missing subject does not mean that its alert is resolved. */
  readonly isComplete: boolean
}

type Observe = (deps: ConditionDeps, rule: AlertRule, now: number) => Promise<Observation[]>

const thresholdOf = ({ threshold, kind }: AlertRule) => threshold ?? alertKind(kind).threshold?.default ?? 0
const windowOf = ({ window_seconds, kind }: AlertRule) =>
  window_seconds ?? alertKind(kind).window?.default ?? ROLLUP_S
const filterOf = ({ subject_ids }: AlertRule) => ({ ids: subject_ids, limit: MAX_SUBJECTS + 1 })
const rounded = (value: number) => String(Math.round(value * 10) / 10)

/** The observation of a rate, if it reaches the threshold with enough requests. */
function rateOf(
  rule: AlertRule,
  { subject, name, count, total }: { subject: string; name: string; count: number; total: number },
): Observation[] {
  if (total < (rule.min_requests ?? 1)) return []
  const rate = (count / total) * 100
  if (count === 0 || rate < thresholdOf(rule)) return []
  const values = { name, rate: rounded(rate), count: String(count), total: String(total) }
  return [{ subject, values: { ...values, window: String(windowOf(rule)) } }]
}

const errorsOf = ({ failed, served }: RequestCounts) => ({ count: failed, total: failed + served })

const OBSERVE: Readonly<Record<AlertRule['kind'], Observe>> = {
  channel_disabled: async ({ db }, rule) =>
    (await disabledChannels(db, filterOf(rule))).map(({ id, name, status_reason }) => ({
      subject: `channel:${id}`,
      values: { name, reason: status_reason },
    })),
  key_disabled: async ({ db }, rule) =>
    (await disabledKeys(db, filterOf(rule))).map(({ id, name, position, reason }) => ({
      subject: `channel_key:${id}`,
      values: { name, position: String(position), reason },
    })),
  async error_rate({ db }, rule, now) {
    const from = now - windowOf(rule)
    if (rule.subject_ids.length === 0) {
      const counts = errorsOf(await countRequests(db, { from }))
      return rateOf(rule, { subject: 'gateway', name: 'gateway', ...counts })
    }
    const names = await namesOf(db, 'channel', rule.subject_ids)
    const observations: Observation[] = []
    for (const channelId of rule.subject_ids) {
      const counts = errorsOf(await countRequests(db, { from, channelId }))
      const name = names.get(channelId) ?? String(channelId)
      observations.push(...rateOf(rule, { subject: `channel:${channelId}`, name, ...counts }))
    }
    return observations
  },
  async rejection_rate({ db }, rule, now) {
    const { served, failed, rejected } = await countRequests(db, { from: now - windowOf(rule) })
    return rateOf(rule, {
      subject: 'gateway',
      name: 'gateway',
      count: rejected,
      total: served + failed + rejected,
    })
  },
  async balance_low({ db }, rule) {
    const threshold = thresholdOf(rule)
    const low = await limitedBalances(db, { ...filterOf(rule), below: Math.round(threshold * NANOS_PER_USD) })
    return low.map(({ id, username, left }) => ({
      subject: `user:${id}`,
      values: { name: username, left: usdText(Math.max(0, left)), threshold: String(threshold) },
    }))
  },
  async balance_runway({ db }, rule, now) {
    const window = windowOf(rule)
    const from = Math.floor((now - window) / ROLLUP_S) * ROLLUP_S
    const spenders = await groupRollups(db, { from, to: now + ROLLUP_S }, { by: 'user', limit: MAX_SPENDERS })
    const spentBy = new Map(spenders.map(({ key, cost }) => [Number(key), Number(cost)]))
    const ids = [...spentBy.keys()].filter(
      id => (spentBy.get(id) ?? 0) > 0 && (rule.subject_ids.length === 0 || rule.subject_ids.includes(id)),
    )
    if (ids.length === 0) return []
    const balances = await limitedBalances(db, { ids, limit: MAX_SPENDERS })
    return balances.flatMap(({ id, username, left }) => {
      const spent = spentBy.get(id) ?? 0
      const hours = Math.max(0, left) / ((spent / (now - from)) * HOUR_S)
      if (hours >= thresholdOf(rule)) return []
      const values = { name: username, hours: rounded(hours), left: usdText(Math.max(0, left)) }
      return [
        { subject: `user:${id}`, values: { ...values, spent: usdText(spent), window: String(now - from) } },
      ]
    })
  },
  async suspense_open({ db }, rule) {
    const { count, amount } = await sumSuspense(db)
    if (count === 0 || amount < thresholdOf(rule) * NANOS_PER_USD) return []
    return [{ subject: 'ledger:suspense', values: { count: String(count), amount: usdText(amount) } }]
  },
  async verify_failed({ db }) {
    const last = await readMeta(db, 'last_verify')
    const { ok, fault } = JSON.parse(last ?? '{"ok":true}') as { ok: boolean; fault?: string }
    return ok ? [] : [{ subject: 'ledger:verify', values: { fault: fault ?? '' } }]
  },
  async disk_low({ machine }, rule) {
    const free = Math.floor(machine.freeDiskBytes() / MIB)
    const threshold = thresholdOf(rule)
    if (free >= threshold) return []
    const values = { machine: machine.name, free: String(free), threshold: String(threshold) }
    return [{ subject: machineSubject(machine.name), values }]
  },
  async price_missing({ db }, _rule, now) {
    const [served, prices] = await Promise.all([listServed(db), pricesInForce(db, now)])
    const priceOf = createPriceOf(prices, now)
    return served
      .filter(model => priceOf(model) === undefined)
      .map(({ name }) => ({ subject: `model:${name}`, values: { name } }))
  },
  async key_expiring({ db }, rule, now) {
    const span = { after: now - EXPIRED_S, until: now + thresholdOf(rule) * HOUR_S }
    const [tokens, accessTokens] = await Promise.all([
      expiringTokens(db, span, filterOf(rule)),
      expiringAccessTokens(db, span, filterOf(rule)),
    ])
    const of = (what: string, kind: string) => (row: (typeof tokens)[number]) => ({
      subject: `${kind}:${row.id}`,
      values: { what, name: row.name, owner: row.username, time: timeText(row.expired_time) },
    })
    return [
      ...tokens.map(of('API token', 'token')),
      ...accessTokens.map(of('System access token', 'access_token')),
    ]
  },
  async journal_lag({ machine }, rule) {
    const lag = await machine.journalLagS()
    const threshold = thresholdOf(rule)
    if (lag < threshold) return []
    const values = { machine: machine.name, lag: String(Math.floor(lag)), threshold: String(threshold) }
    return [{ subject: machineSubject(machine.name), values }]
  },
  async worker_restarted({ machine }, rule, now) {
    const window = windowOf(rule)
    const exits = (await machine.workerExits()).filter(({ time }) => time > now - window)
    const last = exits.at(-1)
    if (!last || exits.length < thresholdOf(rule)) return []
    const values = {
      machine: machine.name,
      count: String(exits.length),
      slot: String(last.slot),
      how: last.how,
    }
    return [{ subject: machineSubject(machine.name), values: { ...values, window: String(window) } }]
  },
}

/** The subject of an alert about a machine. */
export const machineSubject = (name: string) => `machine:${name}`

/** Values come from administrators, clients and providers: without control characters, and short. */
const clean = (text: string) =>
  text
    .replaceAll(/\p{Cc}+/gu, ' ')
    .toWellFormed()
    .slice(0, MAX_VALUE)
    .toWellFormed()

const cleaned = ({ subject, values }: Observation): Observation => ({
  subject: clean(subject),
  values: Object.fromEntries(Object.entries(values).map(([name, value]) => [name, clean(value)])),
})

/** The conditions of a rule as they are now. */
export const createConditions =
  (deps: ConditionDeps) =>
  async (rule: AlertRule, now: number): Promise<ObservedConditions> => {
    const observations = await OBSERVE[rule.kind](deps, rule, now)
    return {
      observations: observations.slice(0, MAX_SUBJECTS).map(cleaned),
      isComplete: observations.length <= MAX_SUBJECTS,
    }
  }

export type ObserveRule = ReturnType<typeof createConditions>
