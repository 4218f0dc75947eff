import { RATES } from '../../../../src/manage/contract/constants.ts'
import type { Input } from '../../api/client.ts'
import type { PriceItem } from '../../api/contract.ts'
import { csvText, fileOf, readCsv } from '../../look/csv.ts'

const OBJECTS = ['tools', 'tiers', 'variants'] as const
const COLUMNS = ['model', ...RATES, 'max_output_tokens', 'unit_note', ...OBJECTS] as const
type Column = (typeof COLUMNS)[number]

const isObject = (name: Column): name is (typeof OBJECTS)[number] =>
  (OBJECTS as readonly string[]).includes(name)

/** Web search has the column `per_search`. Two cells for one price could contradict each other. */
function objectText(name: (typeof OBJECTS)[number], price: PriceItem): string | undefined {
  if (name !== 'tools') return price[name] && JSON.stringify(price[name])
  const { web_search: _, ...tools } = price.tools ?? {}
  return Object.keys(tools).length > 0 ? JSON.stringify(tools) : undefined
}

/** Prices as CSV, in the columns of the import. */
export const priceFile = (prices: readonly PriceItem[]) =>
  fileOf(
    csvText([
      COLUMNS,
      ...prices.map(price => COLUMNS.map(name => (isObject(name) ? objectText(name, price) : price[name]))),
    ]),
  )

export type PriceChange = Input<'changePrices'>['body']['prices'][number]
/** The prices in a file, or the first error with its line (from 1) and column. */
export type FileReading =
  | { readonly prices: readonly PriceChange[] }
  | { readonly fault: 'empty' | 'no_model' | 'unknown_column' | 'unreadable'; readonly at: string }

/** An empty cell removes a price. A missing column leaves it unchanged. */
function cellValue(name: Column, cell: string): unknown {
  if (cell === '') return null
  if (name === 'unit_note') return cell
  if (isObject(name)) return JSON.parse(cell)
  const value = Number(cell.replace(/^\$/, ''))
  if (Number.isNaN(value)) throw new SyntaxError(cell)
  return value
}

export function readPriceFile(text: string): FileReading {
  const [head = [], ...lines] = readCsv(text).map(line => line.map(cell => cell.trim()))
  if (lines.length === 0) return { fault: 'empty', at: '' }
  const unknown = head.find(name => !(COLUMNS as readonly string[]).includes(name))
  if (unknown !== undefined) return { fault: 'unknown_column', at: unknown }
  if (!head.includes('model')) return { fault: 'no_model', at: '' }
  const names = head as Column[]
  const prices: PriceChange[] = []
  for (const [index, line] of lines.entries()) {
    const model = line[names.indexOf('model')] ?? ''
    if (line.slice(names.length).some(cell => cell !== ''))
      return { fault: 'unreadable', at: `${index + 2}: ${names.at(-1)}` }
    if (model === '') return { fault: 'unreadable', at: `${index + 2}: model` }
    const fields: Record<string, unknown> = {}
    for (const [place, name] of names.entries()) {
      if (name === 'model') continue
      try {
        fields[name] = cellValue(name, line[place] ?? '')
      } catch {
        return { fault: 'unreadable', at: `${index + 2}: ${name}` }
      }
    }
    prices.push({ model, ...fields })
  }
  return { prices }
}
