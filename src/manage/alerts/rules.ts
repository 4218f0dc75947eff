import type { z } from 'zod'
import {
  ALERT_LIMITS,
  type AlertKind,
  alertKind,
  defaultRuleOptions,
  describeAlert,
  type RuleOptions,
} from '../../domain/alert.ts'
import { type FieldFault, invalid, notFound, Refusal } from '../../domain/errors.ts'
import type { AlertRuleRow } from '../../store/engine/schema.ts'
import { type Db, isUniqueViolation } from '../../store/engine/store.ts'
import {
  deleteRule,
  findRule,
  insertRule,
  listRules,
  optionsOfRule,
  updateRule,
} from '../../store/records/alert-rules.ts'
import { listFiring } from '../../store/records/alert-states.ts'
import type { alertContract } from '../contract/alerts.ts'
import type { Handlers } from '../server/call.ts'
import type { Deps } from '../server/deps.ts'
import { presentPage } from '../server/page.ts'

const MAX_FIRING = 500

const presentRule = (row: AlertRuleRow) => {
  const options = optionsOfRule(row)
  return {
    id: row.id,
    name: row.name,
    kind: row.kind,
    enabled: row.enabled === 1,
    ...options,
    target_ids: options.target_ids && [...options.target_ids],
    subject_ids: [...options.subject_ids],
    created_time: row.created_time,
  }
}

async function mustFind(db: Db, id: number): Promise<AlertRuleRow> {
  const row = await findRule(db, id)
  if (!row) throw notFound('alert rule')
  return row
}

type RuleInput = Omit<z.output<(typeof alertContract)['createAlertRule']['body']>, 'name' | 'kind'>

const NUMBERS = { threshold: 'threshold', window_seconds: 'window', min_requests: 'minRequests' } as const

/** Checks the fields against the kind. */
function faultsOf(kind: AlertKind, options: RuleOptions): FieldFault[] {
  const entry = alertKind(kind)
  const faults: FieldFault[] = []
  for (const [path, property] of Object.entries(NUMBERS) as [keyof typeof NUMBERS, 'threshold'][]) {
    const value = options[path]
    const bounds = entry[property]
    if (value === null) continue
    if (!bounds) faults.push({ path, message: `does not apply to rules of the kind ${kind}` })
    else if (value < bounds.range[0] || value > bounds.range[1])
      faults.push({ path, message: `must be from ${bounds.range[0]} to ${bounds.range[1]}` })
    else if (path !== 'threshold' && !Number.isInteger(value))
      faults.push({ path, message: 'must be a whole number' })
  }
  if (options.subject_ids.length > 0 && entry.subjects === undefined)
    faults.push({ path: 'subject_ids', message: `does not apply to rules of the kind ${kind}` })
  if ((options.quiet_from === null) !== (options.quiet_to === null))
    faults.push({
      path: options.quiet_from === null ? 'quiet_from' : 'quiet_to',
      message: 'is required: quiet hours have a start and an end',
    })
  else if (options.quiet_from !== null && options.quiet_from === options.quiet_to)
    faults.push({ path: 'quiet_to', message: 'must differ from quiet_from' })
  return faults
}

/** The options of a rule after a change. Absent fields keep their value; null restores the default. */
function optionsAfter(kind: AlertKind, before: RuleOptions, input: RuleInput): RuleOptions {
  const defaults = defaultRuleOptions(kind)
  const pick = <Name extends 'threshold' | 'window_seconds' | 'min_requests'>(field: Name) =>
    input[field] === undefined ? before[field] : (input[field] ?? defaults[field])
  const options: RuleOptions = {
    threshold: pick('threshold'),
    window_seconds: pick('window_seconds'),
    min_requests: pick('min_requests'),
    for_seconds: input.for_seconds ?? before.for_seconds,
    repeat_seconds: input.repeat_seconds ?? before.repeat_seconds,
    target_ids: input.target_ids === undefined ? before.target_ids : input.target_ids,
    subject_ids: [...new Set(input.subject_ids ?? before.subject_ids)],
    quiet_from: input.quiet_from === undefined ? before.quiet_from : input.quiet_from,
    quiet_to: input.quiet_to === undefined ? before.quiet_to : input.quiet_to,
    time_zone: input.time_zone ?? before.time_zone,
  }
  const faults = faultsOf(kind, options)
  if (faults.length > 0) throw invalid(faults)
  return options
}

function refuseDuplicate(error: unknown): never {
  throw isUniqueViolation(error)
    ? new Refusal('conflict', 'An alert rule with this name already exists. Choose another name.')
    : error
}

type RuleHandlers = Pick<
  Handlers<typeof alertContract>,
  | 'listFiringAlerts'
  | 'listAlertRules'
  | 'createAlertRule'
  | 'getAlertRule'
  | 'updateAlertRule'
  | 'deleteAlertRule'
>

/** Alert rules and the alerts that fire (docs/reference/alerts.md: Rules). */
export function createRuleHandlers({ db, now }: Pick<Deps, 'db' | 'now'>): RuleHandlers {
  return {
    listFiringAlerts: async () => {
      const rows = await listFiring(db, MAX_FIRING)
      const { items } = await listRules(db, { page: 1, pageSize: ALERT_LIMITS.rules })
      const rules = new Map(items.map(rule => [rule.id, rule]))
      return rows.flatMap(row => {
        const rule = rules.get(row.rule_id)
        if (!rule) return []
        const values = JSON.parse(row.observed) as Record<string, string>
        return {
          rule_id: rule.id,
          rule: rule.name,
          kind: rule.kind,
          level: alertKind(rule.kind).level,
          subject: row.subject,
          ...describeAlert({ kind: rule.kind, values }, 'en'),
          since: row.since,
          notified_time: row.notified_time,
          values,
        }
      })
    },

    listAlertRules: async ({ query: { paging } }) =>
      presentPage(await listRules(db, paging), paging, presentRule),
    getAlertRule: async ({ params }) => presentRule(await mustFind(db, params.id)),

    createAlertRule: async ({ body, change }) => {
      const options = optionsAfter(body.kind, defaultRuleOptions(body.kind), body)
      return change(async ({ trx, audit }) => {
        const { total } = await listRules(trx, { page: 1, pageSize: 1 })
        if (total >= ALERT_LIMITS.rules)
          throw new Refusal(
            'conflict',
            `There may be at most ${ALERT_LIMITS.rules} alert rules. Delete some first.`,
          )
        const id = await insertRule(trx, {
          name: body.name,
          kind: body.kind,
          enabled: body.enabled === false ? 0 : 1,
          options: JSON.stringify(options),
          created_time: now(),
        }).catch(refuseDuplicate)
        const view = presentRule(await mustFind(trx, id))
        audit({ action: 'alert_rule.create', target: `alert_rule:${id}`, after: view })
        return view
      })
    },

    updateAlertRule: async ({ body, change }) =>
      change(async ({ trx, audit }) => {
        const before = await mustFind(trx, body.id)
        const options = optionsAfter(before.kind, optionsOfRule(before), body)
        await updateRule(trx, before.id, {
          options: JSON.stringify(options),
          ...(body.name !== undefined && { name: body.name }),
          ...(body.enabled !== undefined && { enabled: body.enabled ? 1 : 0 }),
        }).catch(refuseDuplicate)
        const view = presentRule(await mustFind(trx, before.id))
        audit({
          action: 'alert_rule.update',
          target: `alert_rule:${before.id}`,
          before: presentRule(before),
          after: view,
        })
        return view
      }),

    deleteAlertRule: async ({ params, change }) =>
      change(async ({ trx, audit }) => {
        const row = await mustFind(trx, params.id)
        await deleteRule(trx, row.id)
        audit({ action: 'alert_rule.delete', target: `alert_rule:${row.id}`, before: presentRule(row) })
        return undefined
      }),
  }
}
