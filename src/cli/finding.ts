/** The result of one check of `sluice doctor`. */
export type Finding = {
  /** The name of the check. */
  readonly check: string
  readonly level: 'ok' | 'warning' | 'failure'
  readonly message: string
}

const LEVELS: Readonly<Record<Finding['level'], string>> = { ok: 'ok', warning: 'warn', failure: 'FAIL' }
const CHECK_WIDTH = 14

/** One line for each finding, and a summary. */
export function findingLines(findings: readonly Finding[]): readonly string[] {
  const count = (level: Finding['level']) => findings.filter(finding => finding.level === level).length
  return [
    ...findings.map(
      ({ check, level, message }) => `${LEVELS[level].padEnd(6)}${check.padEnd(CHECK_WIDTH)}${message}`,
    ),
    `${count('ok')} ok, ${count('warning')} warnings, ${count('failure')} failures`,
  ]
}
