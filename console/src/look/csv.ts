type Cell = string | number | boolean | null | undefined

/** A spreadsheet would run such a text as a formula. */
const FORMULA = /^[=+\-@\t\r]/
const ESCAPED_FORMULA = /^'(?=[=+\-@\t\r])/

/** Quotes a cell where needed, and prefixes formulas. */
function field(value: Cell): string {
  const text = typeof value === 'string' && FORMULA.test(value) ? `'${value}` : String(value ?? '')
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

/** Serializes rows of cells. */
export const csvText = (lines: readonly (readonly Cell[])[]) =>
  lines.map(line => `${line.map(field).join(',')}\n`).join('')

/** A data URL that downloads a CSV text. */
export const fileOf = (text: string) => `data:text/csv;charset=utf-8,${encodeURIComponent(text)}`

/** A CSV file of the named fields. */
export const csvFile = <Name extends string>(
  names: readonly Name[],
  rows: readonly Partial<Readonly<Record<Name, unknown>>>[],
) => fileOf(csvText([names, ...rows.map(row => names.map(name => row[name] as Cell))]))

/** Parses CSV or TSV, with quoted cells as spreadsheets write them, and without the prefix of `csvText`. */
export function readCsv(text: string): string[][] {
  const lines: string[][] = [[]]
  let cell = ''
  let isQuoted = false
  const endCell = () => {
    lines.at(-1)?.push(cell.replace(ESCAPED_FORMULA, ''))
    cell = ''
  }
  for (let at = 0; at < text.length; at++) {
    const sign = text[at]
    if (isQuoted && sign === '"' && text[at + 1] === '"') {
      cell += '"'
      at += 1
    } else if (sign === '"') isQuoted = !isQuoted
    else if (isQuoted || !/[,\t\r\n]/.test(sign ?? '')) cell += sign
    else if (sign === ',' || sign === '\t') endCell()
    else if (sign === '\n') {
      endCell()
      lines.push([])
    }
  }
  endCell()
  return lines.filter(line => line.some(each => each.trim() !== ''))
}
