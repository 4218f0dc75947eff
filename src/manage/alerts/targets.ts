import { randomBytes } from 'node:crypto'
import type { z } from 'zod'
import {
  ALERT_LIMITS,
  TARGET_TYPES,
  type TargetField,
  type TargetOptions,
  type TargetSecrets,
  type TargetType,
} from '../../domain/alert.ts'
import { type FieldFault, invalid, notFound, Refusal } from '../../domain/errors.ts'
import { mask } from '../../domain/text.ts'
import { SealError } from '../../identity/keyring.ts'
import type { AlertTargetRow } from '../../store/engine/schema.ts'
import { type Db, isUniqueViolation } from '../../store/engine/store.ts'
import {
  deleteTarget,
  findTarget,
  hintsOfTarget,
  insertTarget,
  listTargets,
  optionsOfTarget,
  updateTarget,
} from '../../store/records/alert-targets.ts'
import type { alertContract } from '../contract/alerts.ts'
import type { Handlers } from '../server/call.ts'
import type { Deps } from '../server/deps.ts'
import { presentPage } from '../server/page.ts'

const NO_SECRETS: TargetSecrets = { url: '', secret: '', bot_token: '' }
const NEW_OPTIONS: TargetOptions = { language: 'en', group_seconds: 30, to: [], chat_id: '' }
const SECRET_BYTES = 24

const placeOf = (id: number) => ({ table: 'alert_targets', row: id, field: 'secrets' })

const presentTarget = (row: AlertTargetRow) => {
  const options = optionsOfTarget(row)
  return {
    id: row.id,
    name: row.name,
    type: row.type,
    enabled: row.enabled === 1,
    ...hintsOfTarget(row),
    ...options,
    to: [...options.to],
    created_time: row.created_time,
  }
}

async function mustFind(db: Db, id: number): Promise<AlertTargetRow> {
  const row = await findTarget(db, id)
  if (!row) throw notFound('alert target')
  return row
}

const MASK = '…'
const maskUrl = (url: string) => (url === '' ? '' : `${new URL(url).origin}/${MASK}`)
const hintsOf = ({ url, secret, bot_token }: TargetSecrets): TargetSecrets => ({
  url: maskUrl(url),
  secret: secret === '' ? '' : mask(secret),
  bot_token: bot_token === '' ? '' : mask(bot_token),
})

type TargetInput = Partial<
  Omit<z.output<(typeof alertContract)['createAlertTarget']['body']>, 'name' | 'type'>
>
const SECRET_FIELDS = ['url', 'secret', 'bot_token'] as const
const isSent = (value: string | undefined) => value !== undefined && value !== '' && !value.includes(MASK)

/** The secrets after a change. An absent, empty or masked value keeps the stored one. */
const secretsAfter = (before: TargetSecrets, input: TargetInput): TargetSecrets => ({
  url: isSent(input.url) ? (input.url ?? '') : before.url,
  secret: isSent(input.secret) ? (input.secret ?? '') : before.secret,
  bot_token: isSent(input.bot_token) ? (input.bot_token ?? '') : before.bot_token,
})

const optionsAfter = (before: TargetOptions, input: TargetInput): TargetOptions => ({
  language: input.language ?? before.language,
  group_seconds: input.group_seconds ?? before.group_seconds,
  to: input.to ?? before.to,
  chat_id: input.chat_id ?? before.chat_id,
})

const REQUIRED: Readonly<Record<TargetType, readonly TargetField[]>> = {
  webhook: ['url'],
  email: ['to'],
  slack: ['url'],
  discord: ['url'],
  telegram: ['bot_token', 'chat_id'],
  feishu: ['url'],
  dingtalk: ['url'],
  wecom: ['url'],
}

const BOT_TOKEN = /^[\w:-]+$/

function refuseDuplicate(error: unknown): never {
  throw isUniqueViolation(error)
    ? new Refusal('conflict', 'An alert target with this name already exists. Choose another name.')
    : error
}

type TargetHandlers = Pick<
  Handlers<typeof alertContract>,
  | 'listAlertTargets'
  | 'createAlertTarget'
  | 'getAlertTarget'
  | 'updateAlertTarget'
  | 'deleteAlertTarget'
  | 'testAlertTarget'
>

/** Where alerts are sent (docs/reference/alerts.md: Targets). */
export function createTargetHandlers({
  db,
  now,
  keyring,
  outbound,
  testAlertTarget,
}: Pick<Deps, 'db' | 'now' | 'keyring' | 'outbound' | 'testAlertTarget'>): TargetHandlers {
  const seal = (secrets: TargetSecrets, id: number) => keyring.seal(JSON.stringify(secrets), placeOf(id))

  /** Without its secrets if they cannot be decrypted: then all of them must be sent again. */
  function openSecrets(row: AlertTargetRow): TargetSecrets {
    try {
      return JSON.parse(keyring.open(row.sealed, placeOf(row.id))) as TargetSecrets
    } catch (error) {
      if (error instanceof SealError) return NO_SECRETS
      throw error
    }
  }

  /** Refuses a target that could not work, and fields that its type does not have. */
  function check(type: TargetType, input: TargetInput, all: TargetSecrets & TargetOptions): void {
    const faults: FieldFault[] = []
    const fields: readonly TargetField[] = TARGET_TYPES[type].fields
    for (const path of ['url', 'secret', 'bot_token', 'chat_id', 'to'] as const) {
      const value = input[path]
      if (value !== undefined && value.length > 0 && !fields.includes(path))
        faults.push({ path, message: `does not apply to targets of the type ${type}` })
      else if (REQUIRED[type].includes(path) && all[path].length === 0)
        faults.push({ path, message: 'is required' })
    }
    const reason = all.url === '' ? undefined : outbound.refuseUrl(all.url)
    if (reason !== undefined) faults.push({ path: 'url', message: reason })
    if (all.bot_token !== '' && !BOT_TOKEN.test(all.bot_token))
      faults.push({ path: 'bot_token', message: 'must have the form 123456:ABC-DEF' })
    if (faults.length > 0) throw invalid(faults)
  }

  /** A stored bot token is sent only to the server that it was entered for. */
  function refuseRedirect(before: TargetSecrets, input: TargetInput): void {
    const isMoved = isSent(input.url) && input.url !== before.url
    if (isMoved && before.bot_token !== '' && !isSent(input.bot_token))
      throw invalid([{ path: 'bot_token', message: 'must be sent again, because the url changes' }])
  }

  return {
    listAlertTargets: async ({ query: { paging } }) =>
      presentPage(await listTargets(db, paging), paging, presentTarget),
    getAlertTarget: async ({ params }) => presentTarget(await mustFind(db, params.id)),

    createAlertTarget: async ({ body, change }) => {
      const { type } = body
      const options = optionsAfter(NEW_OPTIONS, body)
      const entered = secretsAfter(NO_SECRETS, body)
      const generated = randomBytes(SECRET_BYTES).toString('base64url')
      const secrets =
        type === 'webhook' && entered.secret === '' ? { ...entered, secret: `whsec_${generated}` } : entered
      check(type, body, { ...secrets, ...options })
      return change(async ({ trx, audit }) => {
        const { total } = await listTargets(trx, { page: 1, pageSize: 1 })
        if (total >= ALERT_LIMITS.targets)
          throw new Refusal(
            'conflict',
            `There may be at most ${ALERT_LIMITS.targets} alert targets. Delete some first.`,
          )
        const row = {
          name: body.name,
          type,
          enabled: body.enabled === false ? 0 : 1,
          options: JSON.stringify(options),
          hints: JSON.stringify(hintsOf(secrets)),
          created_time: now(),
        }
        const id = await insertTarget(trx, row, newId => seal(secrets, newId)).catch(refuseDuplicate)
        const view = presentTarget(await mustFind(trx, id))
        audit({ action: 'alert_target.create', target: `alert_target:${id}`, after: view })
        return type === 'webhook' ? { ...view, secret: secrets.secret } : view
      })
    },

    updateAlertTarget: async ({ body, change }) =>
      change(async ({ trx, audit }) => {
        const before = await mustFind(trx, body.id)
        const stored = openSecrets(before)
        refuseRedirect(stored, body)
        const secrets = secretsAfter(stored, body)
        const options = optionsAfter(optionsOfTarget(before), body)
        check(before.type, withoutMasked(body), { ...secrets, ...options })
        await updateTarget(trx, before.id, {
          options: JSON.stringify(options),
          hints: JSON.stringify(hintsOf(secrets)),
          sealed: seal(secrets, before.id),
          ...(body.name !== undefined && { name: body.name }),
          ...(body.enabled !== undefined && { enabled: body.enabled ? 1 : 0 }),
        }).catch(refuseDuplicate)
        const view = presentTarget(await mustFind(trx, before.id))
        audit({
          action: 'alert_target.update',
          target: `alert_target:${before.id}`,
          before: presentTarget(before),
          after: view,
        })
        return view
      }),

    deleteAlertTarget: async ({ params, change }) =>
      change(async ({ trx, audit }) => {
        const row = await mustFind(trx, params.id)
        await deleteTarget(trx, row.id)
        audit({ action: 'alert_target.delete', target: `alert_target:${row.id}`, before: presentTarget(row) })
        return undefined
      }),

    testAlertTarget: async ({ params }) => {
      const target = await mustFind(db, params.id)
      const started = performance.now()
      const { isSent: ok, status, error = '' } = await testAlertTarget(target)
      return { ok, status: status ?? null, error, latency_ms: Math.round(performance.now() - started) }
    },
  }
}

/** The input without masked secrets, which a client sends back as it received them. */
const withoutMasked = (input: TargetInput): TargetInput =>
  Object.fromEntries(
    Object.entries(input).filter(
      ([name, value]) =>
        !SECRET_FIELDS.some(field => field === name) || (typeof value === 'string' && isSent(value)),
    ),
  )
