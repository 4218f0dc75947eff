import type { PriceInput } from '../../../domain/price.ts'
import { RATES, TOOLS } from '../../../domain/rate.ts'
import type { SourcePrice } from '../inventory.ts'
import { SourceError } from '../source/database.ts'
import { quoted } from '../values.ts'

const MAX_ROWS = 20_000
const MODEL = 'model'
const TOOL_PREFIX = 'tools.'
const COLUMNS: readonly string[] = [
  MODEL,
  ...RATES,
  ...TOOLS.map(tool => TOOL_PREFIX + tool),
  'max_output_tokens',
  'unit_note',
]

type Line = { readonly number: number; readonly cells: readonly string[] }

/** The lines of a CSV text (RFC 4180): cells may be quoted, and quoted cells may contain commas and line breaks. */
function* linesOf(text: string): Generator<Line> {
  const pattern = /(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n|\n|\r|$)/y
  let cells: string[] = []
  let number = 1
  let first = 1
  // A file of a spreadsheet may begin with a byte order mark.
  const source = text.replace(/^\ufeff/, '')
  while (pattern.lastIndex < source.length || cells.length > 0) {
    const match = pattern.exec(source)
    if (!match)
      throw new SourceError(`line ${number} is no valid CSV: a quote is not closed, or stands inside a cell`)
    const [whole, quotedCell, plain = '', separator] = match
    number += (whole.match(/\r\n|\n|\r/g) ?? []).length
    cells.push(quotedCell === undefined ? plain.trim() : quotedCell.replaceAll('""', '"').trim())
    if (separator === ',') continue
    if (cells.some(cell => cell !== '')) yield { number: first, cells }
    cells = []
    first = number
    if (separator === '') return
  }
}

const readNumber = (cell: string, place: string): number => {
  if (!/^\d{1,15}(\.\d{1,15})?$/.test(cell))
    throw new SourceError(`${place}: ${quoted(cell)} is not a price; write a number of USD such as 0.25`)
  return Number(cell)
}

function readLine({ number, cells }: Line, header: readonly string[]): SourcePrice {
  if (cells.length > header.length) throw new SourceError(`line ${number} has more cells than the first line`)
  const price: Record<string, number | string> = {}
  const tools: Record<string, number> = {}
  let model = ''
  for (const [index, column] of header.entries()) {
    const cell = cells[index] ?? ''
    if (cell === '') continue
    if (column === MODEL) model = cell
    else if (column === 'unit_note') price[column] = cell
    else if (column.startsWith(TOOL_PREFIX))
      tools[column.slice(TOOL_PREFIX.length)] = readNumber(cell, `line ${number}, ${column}`)
    else price[column] = readNumber(cell, `line ${number}, ${column}`)
  }
  if (model === '') throw new SourceError(`line ${number} has no model`)
  return { model, price: { ...price, ...(Object.keys(tools).length > 0 && { tools }) } as PriceInput }
}

/** Reads a table of prices. Its first line has the names of the columns, which are those of `POST /api/price/`. */
export function readCsvPrices(text: string): SourcePrice[] {
  const [first, ...lines] = linesOf(text)
  if (!first) throw new SourceError('the file is empty')
  const header = first.cells.map(cell => cell.toLowerCase())
  if (!header.includes(MODEL))
    throw new SourceError('the first line must name the columns, one of them "model"')
  const unknown = header.find(column => !COLUMNS.includes(column))
  if (unknown !== undefined)
    throw new SourceError(`the column ${quoted(unknown)} is unknown; possible are ${COLUMNS.join(', ')}`)
  if (new Set(header).size < header.length) throw new SourceError('the first line names a column twice')
  if (lines.length > MAX_ROWS)
    throw new SourceError(`the file has ${lines.length} prices; the maximum is ${MAX_ROWS}`)
  const prices = lines.map(line => readLine(line, header))
  const models = new Set<string>()
  for (const [index, { model }] of prices.entries()) {
    if (models.has(model))
      throw new SourceError(`line ${lines[index]?.number}: ${quoted(model)} has a price already`)
    models.add(model)
  }
  return prices
}
