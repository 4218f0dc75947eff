import { relative } from 'node:path'
import type { FileCoverage } from './programs.ts'

/** One line for each room of the product. */
export function describeCoverage(files: readonly FileCoverage[]): string {
  const rooms = Map.groupBy(files, ({ path }) => relative('.', path).split('/').slice(0, 2).join('/'))
  const row = (name: string, group: readonly FileCoverage[]) => {
    const total = group.reduce((sum, { totalLineCount }) => sum + totalLineCount, 0)
    const covered = group.reduce((sum, { coveredLineCount }) => sum + coveredLineCount, 0)
    return `${((100 * covered) / total).toFixed(1).padStart(6)} % of ${String(total).padStart(6)} lines  ${name}`
  }
  const rows = [...rooms].map(([room, group]) => ({ room, line: row(room, group) }))
  const sorted = rows.toSorted((a, b) => a.room.localeCompare(b.room))
  return [...sorted.map(({ line }) => line), row('src', files)].join('\n')
}
