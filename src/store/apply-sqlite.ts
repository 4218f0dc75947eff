import type { Settled } from '../domain/settled.ts'
import { applying, type Change, type Met } from './apply.ts'
import type { SQLInputValue, StatementSync } from './sqlite-open.ts'

/** Called like a statement, with node, last and oldest open number, and settled requests as JSON. */
export const APPLY_SETTLED = 'call apply_settled'

type Prepare = (sql: string) => StatementSync

function run(prepare: Prepare, { statement, columns, rows }: Change): Met {
  if (rows.length === 0) return { count: 0, rows: [] }
  const prepared = prepare(
    statement({
      table: `(select ${columns.map(([name]) => `? as ${name}`).join(', ')}) as given`,
      inserted: `values (${columns.map(() => '?').join(', ')})`,
    }),
  )
  if (prepared.columns().length > 0) {
    const found = rows.flatMap(row => prepared.all(...(row as SQLInputValue[])))
    return { count: found.length, rows: found }
  }
  let count = 0
  for (const row of rows) count += Number(prepared.run(...(row as SQLInputValue[])).changes)
  return { count, rows: [] }
}

/** A batch in one transaction, from its first statement to its commit in one go. */
export function applySettled(prepare: Prepare, parameters: readonly unknown[]): void {
  const [nodeId, lastLsn, oldestOpenLsn, json] = parameters as [string, number, number, string]
  const settled = JSON.parse(json) as Settled[]
  prepare('BEGIN IMMEDIATE').run()
  try {
    const changes = applying({ nodeId, lastLsn, oldestOpenLsn }, settled)
    for (let step = changes.next(); !step.done; ) step = changes.next(run(prepare, step.value))
    prepare('COMMIT').run()
  } catch (error) {
    prepare('ROLLBACK').run()
    throw error
  }
}
