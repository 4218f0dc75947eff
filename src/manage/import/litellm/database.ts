import { MAX_UNITS, nanosOf } from '../../../domain/money.ts'
import { ROLE } from '../../../domain/role.ts'
import { NEVER } from '../../../domain/token.ts'
import { MAX_NAMES } from '../../contract/fields.ts'
import type { Amount, SourceToken, SourceUser } from '../inventory.ts'
import type { ImportNotes } from '../notes.ts'
import { pagesOf, type SourceDatabase } from '../source/database.ts'
import { boundedOf, flagOf, lineOf, MAX_TIME, quoted, type SourceRow, textOf, wholeOf } from '../values.ts'
import { mayCallModels, noteTables, RESTRICTING_COLUMNS } from './unsupported.ts'

/** Users, teams and keys of LiteLLM's database. Of a key only its SHA-256 is stored. */

const MAX_NANOS = nanosOf(MAX_UNITS)
const NANOS_PER_USD = 1_000_000_000
const MAX_LIMIT = 1_000_000_000

const USER_TABLE = {
  table: 'LiteLLM_UserTable',
  key: 'user_id',
  columns: [
    'user_alias',
    'user_email',
    'user_role',
    'max_budget',
    'spend',
    'budget_duration',
    'models',
    'tpm_limit',
    'rpm_limit',
    'created_at',
  ],
}
const TEAM_TABLE = {
  table: 'LiteLLM_TeamTable',
  key: 'team_id',
  columns: [
    'team_alias',
    'max_budget',
    'spend',
    'budget_duration',
    'models',
    'blocked',
    'tpm_limit',
    'rpm_limit',
    'created_at',
  ],
}
const BUDGET_TABLE = {
  table: 'LiteLLM_BudgetTable',
  key: 'budget_id',
  columns: ['max_budget', 'max_parallel_requests', 'tpm_limit', 'rpm_limit', 'budget_duration'],
}
const KEY_TABLE = {
  table: 'LiteLLM_VerificationToken',
  key: 'token',
  columns: [
    'key_name',
    'key_alias',
    'spend',
    'max_budget',
    'budget_duration',
    'budget_id',
    'expires',
    'models',
    'blocked',
    'user_id',
    'team_id',
    'rpm_limit',
    'tpm_limit',
    'max_parallel_requests',
    'created_at',
    'aliases',
    ...RESTRICTING_COLUMNS,
  ],
}

/** The owner of keys that have neither user nor team, and of the master key. */
export const OWNER = 'owner of keys'

const isAbsent = (value: unknown) => value === null || value === undefined

/** USD as nanodollars; undefined if it is no number. */
function nanosOfUsd(value: unknown): number | undefined {
  const usd = Number(textOf(value))
  return Number.isFinite(usd) ? Math.round(usd * NANOS_PER_USD) : undefined
}

type BudgetReading = { readonly label: string; readonly area: string; readonly notes: ImportNotes }

/** What is left of a budget; unlimited without one. */
function readBudget(row: SourceRow, max: unknown, { label, area, notes }: BudgetReading): Amount {
  if (isAbsent(max)) return { nanos: 0, isUnlimited: true }
  const remaining = (nanosOfUsd(max) ?? 0) - (nanosOfUsd(row.spend) ?? 0)
  const duration = lineOf(row.budget_duration, 20)
  if (duration !== '')
    notes.note(
      area,
      label,
      `its budget is renewed every ${duration} there; here it is not. What is left of it is carried over`,
    )
  if (remaining < 0) notes.note(area, label, 'has spent more than its budget; it becomes 0')
  if (remaining > MAX_NANOS) {
    notes.note(
      area,
      label,
      `its budget is above the maximum of ${MAX_UNITS} units; it becomes unlimited_quota`,
    )
    return { nanos: 0, isUnlimited: true }
  }
  return { nanos: Math.max(0, remaining), isUnlimited: false }
}

function limitsOf(row: SourceRow, fallback: SourceRow = {}): string {
  const limit = (name: string, max = MAX_LIMIT) =>
    boundedOf(isAbsent(row[name]) ? fallback[name] : row[name], 0, max, 0) || null
  const limits = {
    rpm: limit('rpm_limit'),
    tpm: limit('tpm_limit'),
    concurrency: limit('max_parallel_requests', 1_000_000),
  }
  return Object.values(limits).some(value => value !== null) ? JSON.stringify(limits) : '{}'
}

/** The names of limits that are 0, with which LiteLLM refuses every request. Here the smallest limit is 1. */
const zeroLimitsOf = (row: SourceRow, fallback: SourceRow = {}): string[] =>
  ['rpm_limit', 'tpm_limit', 'max_parallel_requests'].filter(
    name => wholeOf(isAbsent(row[name]) ? fallback[name] : row[name]) === 0n,
  )

/** Whether a row may send requests; a note names a limit of 0. */
function isUsable(row: SourceRow, warn: (message: string) => void, fallback?: SourceRow): boolean {
  const [limit] = zeroLimitsOf(row, fallback)
  if (limit !== undefined) warn(`its ${limit} is 0, so it can send no request there; it becomes disabled`)
  return limit === undefined && !flagOf(row.blocked)
}

const listOf = (value: unknown): string[] =>
  Array.isArray(value) ? value.map(item => textOf(item).trim()).filter(item => item !== '') : []

const secondsOf = (value: unknown): number => {
  const ms = Date.parse(textOf(value))
  return Number.isFinite(ms) ? Math.min(MAX_TIME, Math.max(0, Math.floor(ms / 1000))) : 0
}

/** Older databases have no times of creation. */
const anchorOf = (row: SourceRow): string => String(secondsOf(row.created_at) || '')

const newUser = (
  fields: Partial<SourceUser> & Pick<SourceUser, 'sourceId' | 'label' | 'name'> & Amount,
): SourceUser => ({
  anchor: '',
  displayName: '',
  email: '',
  passwordHash: '',
  role: ROLE.user,
  isEnabled: true,
  group: 'default',
  createdTime: 0,
  accessToken: '',
  limits: '{}',
  ...fields,
})

const ANY_MODEL = 'all-proxy-models'
const OF_TEAM = 'all-team-models'
/** Words in lists of models that are no names. */
const WORDS: ReadonlySet<string> = new Set([ANY_MODEL, OF_TEAM, 'no-default-models'])

/** Whether a name matches a pattern, in which * stands for any text. */
function matches(pattern: string, name: string): boolean {
  const [first = '', ...others] = pattern.split('*')
  const last = others.pop()
  if (last === undefined) return name === pattern
  if (!name.startsWith(first) || name.length < first.length + last.length || !name.endsWith(last))
    return false
  let position = first.length
  for (const part of others) {
    const at = name.indexOf(part, position)
    if (at === -1) return false
    position = at + part.length
  }
  return position <= name.length - last.length
}

/** What the configuration serves. A list of models may name an access group instead of its models. */
export type LiteLlmModels = {
  readonly names: readonly string[]
  readonly accessGroups: ReadonlyMap<string, readonly string[]>
}

/** The list of a key, a team or a user; undefined if it allows any model. */
const patternsOf = (models: unknown, { accessGroups }: LiteLlmModels): readonly string[] | undefined => {
  const names = listOf(models)
  if (names.length === 0 || names.includes(ANY_MODEL)) return undefined
  return names.filter(name => !WORDS.has(name)).flatMap(name => [name, ...(accessGroups.get(name) ?? [])])
}

/** The models of a key; undefined for any. The list of its team, or else of its user, restricts it further. */
function modelsOf(
  row: SourceRow,
  owner: SourceRow | undefined,
  served: LiteLlmModels,
  warn: (message: string) => void,
): string[] | undefined {
  const ofOwner = patternsOf(owner?.models, served)
  const ofKey = listOf(row.models).includes(OF_TEAM) ? undefined : patternsOf(row.models, served)
  const patterns = ofKey ?? ofOwner
  if (patterns === undefined) return undefined
  for (const name of listOf(ofKey === undefined ? owner?.models : row.models))
    if (served.accessGroups.has(name))
      warn(`allows the access group ${quoted(name)}; here the list has the models of the group`)
  const models = patterns.flatMap(name => {
    if (!name.includes('*')) return [name]
    warn(`allows ${quoted(name)}; here the list has the models that match it now`)
    return served.names.filter(model => matches(name, model))
  })
  const allowed = [...new Set(models)].filter(
    model => ofOwner?.some(pattern => matches(pattern, model)) ?? true,
  )
  const usable = allowed.filter(model => [...model].length <= 255).slice(0, MAX_NAMES)
  if (usable.length < allowed.length) warn('its list of models is too long; it is cut')
  return usable
}

export function createLiteLlmDatabase(database: SourceDatabase, notes: ImportNotes, models: LiteLlmModels) {
  const teams = new Map<string, SourceRow>()
  const people = new Map<string, SourceRow>()
  const budgets = new Map<string, SourceRow>()

  /** Users, then teams as users: a team's budget and keys belong together. */
  async function* users(): AsyncGenerator<readonly SourceUser[]> {
    for await (const page of pagesOf(database, BUDGET_TABLE))
      for (const row of page) budgets.set(textOf(row.budget_id), row)
    for await (const page of pagesOf(database, USER_TABLE))
      yield page.map(row => {
        const id = textOf(row.user_id)
        people.set(id, row)
        const name = textOf(row.user_email) || textOf(row.user_alias) || id
        const label = `user ${quoted(name)}`
        const isAdmin = textOf(row.user_role) === 'proxy_admin'
        if (isAdmin) notes.note('user', label, 'is an administrator there, and becomes one here (role 10)')
        return newUser({
          sourceId: `user ${id}`,
          anchor: anchorOf(row),
          label,
          isEnabled: isUsable(row, message => notes.note('user', label, message)),
          name,
          email: lineOf(row.user_email, 254),
          role: isAdmin ? ROLE.admin : ROLE.user,
          limits: limitsOf(row),
          ...readBudget(row, row.max_budget, { label, area: 'user', notes }),
        })
      })
    for await (const page of pagesOf(database, TEAM_TABLE))
      yield page.map(row => {
        const id = textOf(row.team_id)
        teams.set(id, row)
        const name = textOf(row.team_alias) || id
        const label = `team ${quoted(name)}`
        notes.note('user', label, 'becomes a user, who owns the keys and the budget of the team')
        return newUser({
          sourceId: `team ${id}`,
          anchor: anchorOf(row),
          label,
          name: `team-${name}`,
          isEnabled: isUsable(row, message => notes.note('user', label, message)),
          limits: limitsOf(row),
          ...readBudget(row, row.max_budget, { label, area: 'user', notes }),
        })
      })
  }

  function tokenOf(row: SourceRow): SourceToken | undefined {
    const sha256 = textOf(row.token).trim().toLowerCase()
    const alias = lineOf(row.key_alias, 50)
    const hint = lineOf(row.key_name, 40)
    const label = `key ${quoted(alias || hint || sha256.slice(0, 8))}`
    const warn = (message: string) => notes.note('token', label, message)
    if (!/^[0-9a-f]{64}$/.test(sha256)) {
      notes.count('tokens', 'skipped')
      warn('its hash is not a SHA-256; it is not carried over')
      return undefined
    }
    const budget = budgets.get(textOf(row.budget_id)) ?? {}
    const teamId = textOf(row.team_id)
    const userId = textOf(row.user_id)
    if (Object.keys((row.aliases ?? {}) as object).length > 0)
      warn('its own model aliases are not carried over')
    const max = isAbsent(row.max_budget) ? budget.max_budget : row.max_budget
    return {
      sourceId: sha256,
      anchor: '',
      label,
      ...readBudget({ budget_duration: budget.budget_duration, ...row }, max, {
        label,
        area: 'token',
        notes,
      }),
      ownerId: teamId !== '' ? `team ${teamId}` : userId !== '' ? `user ${userId}` : OWNER,
      key: { sha256, hint: hint.replace('...', '…') || 'sk-…' },
      name: alias || `key ${sha256.slice(0, 8)}`,
      isEnabled: isUsable(row, warn, budget) && mayCallModels(row, warn),
      createdTime: secondsOf(row.created_at),
      expiredTime: isAbsent(row.expires) ? NEVER : secondsOf(row.expires),
      models: modelsOf(row, teamId === '' ? people.get(userId) : teams.get(teamId), models, warn),
      allowIps: [],
      group: 'default',
      limits: limitsOf(row, budget),
    }
  }

  async function* tokens(): AsyncGenerator<readonly SourceToken[]> {
    for await (const page of pagesOf(database, KEY_TABLE)) yield page.flatMap(row => tokenOf(row) ?? [])
  }

  /** Models that were created in LiteLLM's console are encrypted under its salt key. */
  async function noteModels(): Promise<void> {
    const range = { table: 'LiteLLM_ProxyModelTable', key: 'model_id', columns: ['model_name'] }
    for await (const page of pagesOf(database, range))
      for (const row of page)
        notes.note(
          'channel',
          `model ${quoted(row.model_name)}`,
          'is stored encrypted in the database of LiteLLM; add it to the configuration file, or create a channel',
        )
  }

  async function noteUnsupported(): Promise<void> {
    await noteModels()
    await noteTables(database, notes)
  }

  return { users, tokens, noteUnsupported, newOwner: newUser }
}
