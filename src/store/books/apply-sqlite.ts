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

/**
 * Rows per INSERT, the largest first, because most of the cost of an INSERT is the call itself. SQLite also copies every page
 * that an INSERT of several rows changes, so that it could undo this INSERT alone.
 */
const ROWS_AT_ONCE = [128, 16, 1]

/** The values of some rows, one after the other. */
function valuesOf(rows: BookChange['rows'], start: number, end: number): SQLInputValue[] {
  const values: SQLInputValue[] = []
  for (let index = start; index < end; index++)
    for (const value of rows[index] as readonly SQLInputValue[]) values.push(value)
  return values
}

function insertRows(prepare: Prepare, { statement, columns, rows }: BookChange): void {
  const row = `(${columns.map(() => '?').join(', ')})`
  let next = 0
  for (const count of ROWS_AT_ONCE) {
    if (rows.length - next < count) continue
    const insertSource = `values ${Array(count).fill(row).join(', ')}`
    const insert = prepare(statement({ table: '', insertSource }))
    for (; rows.length - next >= count; next += count) insert.run(...valuesOf(rows, next, next + count))
  }
}

/** Stands for a row, where SQLite does not need a table for it. */
const ROW = '{row}'
const JOIN_OF_ROW = /\bfrom \{row\}\s+where\b/
const FIELD_OF_ROW = /\binput\.(\w+)/g

/**
 * A change of one row. An UPDATE takes its values as parameters: SQLite would build a table of one row first, which takes longer than
 * the rest of the statement.
 */
function sqlForRow({ statement, columns }: BookChange): string {
  const direct = statement({ table: ROW, insertSource: '' }).replace(JOIN_OF_ROW, 'where')
  if (!direct.includes(ROW))
    return direct.replaceAll(
      FIELD_OF_ROW,
      (_field, name) => `?${columns.findIndex(column => column[0] === name) + 1}`,
    )
  const table = `(select ${columns.map(([name]) => `? as ${name}`).join(', ')}) as input`
  return statement({ table, insertSource: '' })
}

function run(prepare: Prepare, change: BookChange): ChangeResult {
  const { rows } = change
  if (rows.length === 0) return { count: 0, rows: [] }
  if (change.isInsert) {
    insertRows(prepare, change)
    return { count: rows.length, rows: [] }
  }
  const prepared = prepare(sqlForRow(change))
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
