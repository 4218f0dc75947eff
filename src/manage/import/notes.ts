import type { ImportCounts, ImportNote, ImportReport } from '../../domain/import.ts'

/** What an import could not carry over or changed, for its report. */

const MAX_NOTES = 200_000

/** Collects the report of one import. */
export function createImportNotes(source: string, isDry: boolean) {
  const notes: ImportNote[] = []
  const counts: Record<string, ImportCounts> = {}
  let omitted = 0
  return {
    note(area: string, subject: string, message: string): void {
      if (notes.length < MAX_NOTES) notes.push({ area, subject, message })
      else omitted += 1
    },
    count(area: string, outcome: keyof ImportCounts, number = 1): void {
      counts[area] ??= { created: 0, changed: 0, unchanged: 0, skipped: 0 }
      counts[area][outcome] += number
    },
    report: (): ImportReport => ({ source, dry_run: isDry, counts, notes, notes_omitted: omitted }),
  }
}

export type ImportNotes = ReturnType<typeof createImportNotes>
