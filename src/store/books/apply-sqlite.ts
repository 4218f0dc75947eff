import { createChainKey } from '../../domain/chain.ts'
import type { Settled } from '../../domain/settled.ts'
import type { SQLInputValue, StatementSync } from '../../host/sqlite-open.ts'
import { type BookChange, type ChangeResult, changesOf, type Position } from './apply.ts'

/** A batch as the main thread sends it to SQLite's thread. */
export type BatchMessage = {
  readonly position: Position
  /** A JSON array of settled requests, in UTF-8, in memory of its own: only SQLite's thread parses it. */
  readonly settled: Uint8Array<ArrayBuffer>
  /** The bytes of the chain key as base64. */
  readonly key: string
}

type Prepare = (sql: string) => StatementSync

/** Rows per INSERT, because most of the cost of an INSERT is the call itself. */
const ROWS_AT_ONCE = 32

function insertRows(prepare: Prepare, { statement, columns, rows }: BookChange): void {
  const row = `(${columns.map(() => '?').join(', ')})`
  const insertOf = (count: number) =>
    prepare(statement({ table: '', insertSource: `values ${Array(count).fill(row).join(', ')}` }))
  let next = 0
  while (next + ROWS_AT_ONCE <= rows.length) {
    const values: SQLInputValue[] = []
    for (const end = next + ROWS_AT_ONCE; next < end; next++) values.push(...(rows[next] ?? []))
    insertOf(ROWS_AT_ONCE).run(...values)
  }
  for (const values of rows.slice(next)) insertOf(1).run(...values)
}

function run(prepare: Prepare, change: BookChange): ChangeResult {
  const { statement, columns, rows } = change
  if (rows.length === 0) return { count: 0, rows: [] }
  if (change.isInsert) {
    insertRows(prepare, change)
    return { count: rows.length, rows: [] }
  }
  const table = `(select ${columns.map(([name]) => `? as ${name}`).join(', ')}) as input`
  const prepared = prepare(statement({ table, insertSource: '' }))
  if (prepared.columns().length > 0) {
    const returned = rows.flatMap(values => prepared.all(...values))
    return { count: returned.length, rows: returned }
  }
  let count = 0
  for (const values of rows) count += Number(prepared.run(...values).changes)
  return { count, rows: [] }
}

const textOf = ({ buffer, byteOffset, length }: Uint8Array) =>
  Buffer.from(buffer, byteOffset, length).toString()

/** Applies a batch in one transaction, without returning to the event loop before the commit. */
export function applySettled(prepare: Prepare, { position, settled, key }: BatchMessage): void {
  prepare('BEGIN IMMEDIATE').run()
  try {
    const changes = changesOf(
      position,
      JSON.parse(textOf(settled)) as Settled[],
      createChainKey(Buffer.from(key, 'base64')),
    )
    for (let step = changes.next(); !step.done; )
      step = changes.next(step.value.map(change => run(prepare, change)))
    prepare('COMMIT').run()
  } catch (error) {
    try {
      prepare('ROLLBACK').run()
    } catch {
      // On a full disk SQLite rolls back by itself.
    }
    throw error
  }
}
