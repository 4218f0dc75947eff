import { z } from 'zod'
import { ALERT_KIND_NAMES, ALERT_LIMITS, DELIVERY_STATUSES, TARGET_TYPE_NAMES } from '../../domain/alert.ts'
import { isEmailAddress } from '../../domain/smtp.ts'
import { id, idParams, optional, paged, pageOf, queryNumber, text } from './fields.ts'
import type { Contract } from './route.ts'

const name = text({ min: 1, max: 100 })
const timeOfDay = z.string().regex(/^([01]\d|2[0-3]):[0-5]\d$/, 'must be a time of day such as 22:00')

function isTimeZone(value: string): boolean {
  try {
    return Boolean(new Intl.DateTimeFormat('en', { timeZone: value }))
  } catch {
    // The name is not in the time zone database.
    return false
  }
}
const timeZone = text({ min: 1, max: 64 }).refine(
  isTimeZone,
  'must be a time zone such as Europe/Berlin or UTC',
)

const seconds = (max: number) => z.int().min(0).max(max)
/** The bounds depend on the kind and are checked by the handler. */
const ruleNumber = z.number().min(0).max(1e12).nullish()

const ruleFields = {
  enabled: optional(z.boolean()),
  threshold: ruleNumber.describe('In the unit of the kind; null: its default'),
  window_seconds: ruleNumber,
  min_requests: ruleNumber,
  for_seconds: optional(seconds(ALERT_LIMITS.forSeconds)),
  repeat_seconds: optional(seconds(ALERT_LIMITS.repeatSeconds)),
  target_ids: z.array(id).max(ALERT_LIMITS.targets).nullish().describe('Null: every enabled target'),
  subject_ids: optional(z.array(id).max(100)).describe('Channels or users; empty: all'),
  quiet_from: timeOfDay.nullish(),
  quiet_to: timeOfDay.nullish(),
  time_zone: optional(timeZone),
}

const ruleView = z
  .object({
    id: z.int(),
    name: z.string(),
    kind: z.enum(ALERT_KIND_NAMES),
    enabled: z.boolean(),
    threshold: z.number().nullable().describe('In the unit of the kind'),
    window_seconds: z.number().nullable(),
    min_requests: z.number().nullable(),
    for_seconds: z
      .int()
      .describe('How long the condition must hold, and be absent before the alert is resolved'),
    repeat_seconds: z.int().describe('Time between reminders; 0: none'),
    target_ids: z.array(z.int()).nullable().describe('Null: every enabled target'),
    subject_ids: z.array(z.int()).describe('Channels or users; empty: all'),
    quiet_from: z.string().nullable(),
    quiet_to: z.string().nullable(),
    time_zone: z.string(),
    created_time: z.int(),
  })
  .meta({ id: 'AlertRule' })

const address = text({ min: 3, max: 255 }).refine(isEmailAddress, 'must be an e-mail address')
const targetFields = {
  enabled: optional(z.boolean()),
  url: optional(text({ max: 2_000 })).describe('Masked on output; absent or masked: unchanged'),
  secret: optional(text({ max: 200 })).describe('Masked on output; absent or masked: unchanged'),
  bot_token: optional(text({ max: 200 })).describe('Masked on output; absent or masked: unchanged'),
  chat_id: optional(text({ max: 100 })),
  to: optional(z.array(address).max(ALERT_LIMITS.recipients)),
  language: optional(z.enum(['en', 'zh-CN'])),
  group_seconds: optional(seconds(ALERT_LIMITS.groupSeconds)),
}

const targetView = z
  .object({
    id: z.int(),
    name: z.string(),
    type: z.enum(TARGET_TYPE_NAMES),
    enabled: z.boolean(),
    url: z.string().describe('Only the origin: the rest may be a secret'),
    secret: z.string().describe('Masked; whole in the response that created it'),
    bot_token: z.string().describe('Masked'),
    chat_id: z.string(),
    to: z.array(z.string()),
    language: z.enum(['en', 'zh-CN']),
    group_seconds: z.int(),
    created_time: z.int(),
  })
  .meta({ id: 'AlertTarget' })

const noticeView = z.object({
  state: z.enum(['firing', 'still_firing', 'resolved']),
  kind: z.enum(ALERT_KIND_NAMES),
  rule_id: z.int(),
  rule: z.string(),
  subject: z.string(),
  since: z.int(),
  time: z.int(),
  values: z.record(z.string(), z.string()),
})

const deliveryView = z
  .object({
    id: z.int(),
    target_id: z.int(),
    target: z.string(),
    status: z.enum(DELIVERY_STATUSES),
    title: z.string(),
    alerts: z.array(noticeView),
    omitted: z.int(),
    created_time: z.int(),
    attempts: z.int(),
    next_time: z.int().nullable().describe('The next attempt; null if there is none'),
    ended_time: z.int().nullable(),
    last_error: z.string(),
  })
  .meta({ id: 'AlertDelivery' })

const firingView = z
  .object({
    rule_id: z.int(),
    rule: z.string(),
    kind: z.enum(ALERT_KIND_NAMES),
    level: z.enum(['error', 'warning']),
    subject: z.string(),
    title: z.string(),
    detail: z.string(),
    since: z.int(),
    notified_time: z.int().nullable(),
    values: z.record(z.string(), z.string()),
  })
  .meta({ id: 'FiringAlert' })

export const alertContract = {
  listFiringAlerts: {
    method: 'GET',
    path: '/api/alert/firing',
    access: 'admin',
    summary: 'Alerts that fire now, newest first, at most 500',
    data: z.array(firingView),
  },
  listAlertRules: {
    method: 'GET',
    path: '/api/alert/rule/',
    access: 'admin',
    summary: 'List alert rules, oldest first',
    query: paged({}),
    data: pageOf(ruleView),
  },
  createAlertRule: {
    method: 'POST',
    path: '/api/alert/rule/',
    access: 'admin',
    summary: 'Create an alert rule',
    body: z.object({ name, kind: z.enum(ALERT_KIND_NAMES), ...ruleFields }),
    data: ruleView,
  },
  getAlertRule: {
    method: 'GET',
    path: '/api/alert/rule/:id',
    access: 'admin',
    summary: 'One alert rule',
    params: idParams,
    data: ruleView,
  },
  updateAlertRule: {
    method: 'PUT',
    path: '/api/alert/rule/',
    access: 'admin',
    summary: 'Change only the fields sent; target_ids null means every target',
    body: z.object({ id, name: optional(name), ...ruleFields }),
    data: ruleView,
  },
  deleteAlertRule: {
    method: 'DELETE',
    path: '/api/alert/rule/:id',
    access: 'admin',
    summary: 'Delete an alert rule; its alerts end without a message',
    params: idParams,
  },
  listAlertTargets: {
    method: 'GET',
    path: '/api/alert/target/',
    access: 'admin',
    summary: 'List alert targets, oldest first',
    query: paged({}),
    data: pageOf(targetView),
  },
  createAlertTarget: {
    method: 'POST',
    path: '/api/alert/target/',
    access: 'admin',
    summary: 'Create an alert target; a webhook without a secret gets one, which is returned once',
    body: z.object({ name, type: z.enum(TARGET_TYPE_NAMES), ...targetFields }),
    data: targetView,
  },
  getAlertTarget: {
    method: 'GET',
    path: '/api/alert/target/:id',
    access: 'admin',
    summary: 'One alert target',
    params: idParams,
    data: targetView,
  },
  updateAlertTarget: {
    method: 'PUT',
    path: '/api/alert/target/',
    access: 'admin',
    summary: 'Change only the fields sent; a masked or empty secret is unchanged',
    body: z.object({ id, name: optional(name), ...targetFields }),
    data: targetView,
  },
  deleteAlertTarget: {
    method: 'DELETE',
    path: '/api/alert/target/:id',
    access: 'admin',
    summary: 'Delete an alert target with its deliveries',
    params: idParams,
  },
  testAlertTarget: {
    method: 'POST',
    path: '/api/alert/target/:id/test',
    access: 'admin',
    summary: 'Send a test message now, once',
    params: idParams,
    data: z.object({
      ok: z.boolean(),
      status: z
        .int()
        .nullable()
        .describe('The HTTP status of the receiver; null without an answer or for e-mail'),
      error: z.string(),
      latency_ms: z.int(),
    }),
  },
  listAlertDeliveries: {
    method: 'GET',
    path: '/api/alert/delivery/',
    access: 'admin',
    summary: 'Messages to targets, newest first; the status dead means that the last attempt failed',
    query: paged({ status: z.enum(['', ...DELIVERY_STATUSES]).optional(), target_id: queryNumber }),
    data: pageOf(deliveryView),
  },
  retryAlertDelivery: {
    method: 'POST',
    path: '/api/alert/delivery/:id/retry',
    access: 'admin',
    summary: 'Put a dead message into the queue again, with a new set of attempts',
    params: idParams,
    data: deliveryView,
  },
} as const satisfies Contract
