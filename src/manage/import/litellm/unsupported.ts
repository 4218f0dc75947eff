import { isObject } from '../../../domain/json-object.ts'
import type { ImportNotes } from '../notes.ts'
import { pagesOf, type SourceDatabase } from '../source/database.ts'
import { lineOf, objectOf, type SourceRow, textOf } from '../values.ts'

/** What LiteLLM's database restricts or limits, and this gateway does not. */

/** Columns of a key that restrict it further, besides those that are carried over. */
export const RESTRICTING_COLUMNS = ['allowed_routes', 'model_max_budget', 'metadata'] as const

/** Routes that call no model. */
const MANAGEMENT_ROUTES: ReadonlySet<string> = new Set(['management_routes', 'info_routes'])
const MODEL_ROUTES = 'llm_api_routes'
/** Members of `metadata` that limit single models. */
const MODEL_LIMITS = ['model_rpm_limit', 'model_tpm_limit'] as const

const isFilled = (value: unknown): boolean => isObject(value) && Object.keys(value).length > 0

/** Notes the restrictions of a key that end with the import. False if the key may call no model there. */
export function mayCallModels(row: SourceRow, warn: (message: string) => void): boolean {
  if (isFilled(objectOf(row.model_max_budget))) warn('its budgets of single models are not carried over')
  const metadata = objectOf(row.metadata)
  if (MODEL_LIMITS.some(name => isFilled(metadata?.[name])))
    warn('its rate limits of single models are not carried over')
  const routes = Array.isArray(row.allowed_routes) ? row.allowed_routes.map(textOf) : []
  if (routes.length === 0 || routes.includes(MODEL_ROUTES)) return true
  if (routes.every(route => MANAGEMENT_ROUTES.has(route))) {
    warn('may call no model there; it becomes disabled')
    return false
  }
  const names = routes.slice(0, 5).map(route => lineOf(route, 60))
  warn(`may use only some routes there (${names.join(', ')}); here it may use all operations`)
  return true
}

/** Tables that have no counterpart here, and what their rows are. */
const TABLES = {
  LiteLLM_EndUserTable: { key: 'user_id', meaning: 'customers with their budgets and blocks' },
  LiteLLM_OrganizationTable: { key: 'organization_id', meaning: 'organizations with their budgets' },
  LiteLLM_TeamMembership: { key: 'user_id', meaning: 'members of teams, and their budgets within a team' },
} as const

export async function noteTables(database: SourceDatabase, notes: Pick<ImportNotes, 'note'>): Promise<void> {
  for (const [table, { key, meaning }] of Object.entries(TABLES))
    for await (const _page of pagesOf(database, { table, key, columns: [] })) {
      notes.note('source', `table ${table}`, `has rows that are not carried over: ${meaning}`)
      break
    }
}
