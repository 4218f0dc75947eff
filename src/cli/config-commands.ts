import { writeFileSync } from 'node:fs'
import type {
  ApplyInput,
  ApplyResult,
  ExportResult,
  RollbackInput,
  RollbackReport,
} from '../domain/config-change.ts'
import { CommandError } from './command.ts'
import { readConfigFiles } from './config-files.ts'
import { planLines, revisionChangeLines } from './config-plan.ts'
import { openSecretsFile } from './secrets-file.ts'

/** A dry run that would change something: neither success nor failure. */
const EXIT_CHANGES = 2

type Output = { print(line: string): void; printError(line: string): void }

export type ApplyOptions = {
  readonly files: readonly string[]
  /** A variable of the environment. */
  readonly variable: ((name: string) => string | undefined) | undefined
  readonly isDryRun: boolean
  readonly isPruning: boolean
  readonly isJson: boolean
  readonly secretsFile: string | undefined
  readonly reason: string | undefined
}

/** Runs `sluice apply`. Returns the exit code. */
export async function runApply(
  { print, printError }: Output,
  options: ApplyOptions,
  apply: (input: ApplyInput) => Promise<ApplyResult>,
): Promise<number> {
  const { document, names, warnings, locate } = await readConfigFiles(options.files, options.variable)
  for (const warning of warnings) printError(`sluice: ${warning}`)
  const secretsFile =
    options.secretsFile === undefined || options.isDryRun ? undefined : openSecretsFile(options.secretsFile)
  try {
    const result = await apply({
      document,
      is_dry_run: options.isDryRun,
      is_pruning: options.isPruning,
      reason: options.reason ?? `apply ${names.join(', ')}`.slice(0, 200),
    }).catch(error => {
      throw error instanceof CommandError ? new CommandError(locate(error.message)) : error
    })
    secretsFile?.write(result.secrets)
    const { secrets, ...report } = result
    if (options.isJson) print(JSON.stringify(report))
    else for (const line of planLines(result, options.isDryRun)) print(line)
    if (secretsFile === undefined && secrets.length > 0)
      printError(
        `sluice: the values of ${secrets.length} new tokens or targets are not shown. Reveal them in the console, or use --secrets-out with the next ones.`,
      )
    return options.isDryRun && result.changes.length > 0 ? EXIT_CHANGES : 0
  } finally {
    secretsFile?.close()
  }
}

const HEADER = `# The configuration of a Sluice gateway. "sluice apply -f FILE" applies it.
# Secrets are left out: write key: env:NAME or key: file:PATH for new channels, and password for new users.
# A hidden secret (…) keeps its value.
`

/** Runs `sluice export`. Returns the exit code. */
export async function runExport(
  { print, printError }: Output,
  { file, isJson }: { readonly file: string | undefined; readonly isJson: boolean },
  exportConfig: () => Promise<ExportResult>,
): Promise<number> {
  const { document, warnings } = await exportConfig()
  for (const warning of warnings) printError(`sluice: ${warning}`)
  const { stringify } = await import('yaml')
  const text = isJson
    ? JSON.stringify(document, null, 2)
    : `${HEADER}${stringify(document, { lineWidth: 0 })}`.trimEnd()
  if (file === undefined) print(text)
  else
    try {
      writeFileSync(file, `${text}\n`, { flag: 'wx', mode: 0o600 })
    } catch (error) {
      throw new CommandError(`${file} cannot be written: ${(error as Error).message}`)
    }
  return 0
}

/** Runs `sluice config rollback`. Returns the exit code. */
export async function runRollback(
  { print, printError }: Output,
  { input, isJson }: { readonly input: RollbackInput; readonly isJson: boolean },
  rollback: () => Promise<RollbackReport>,
): Promise<number> {
  const report = await rollback()
  const { changes, warnings, revision } = report
  if (isJson) print(JSON.stringify(report))
  else {
    for (const line of revisionChangeLines(changes)) print(line)
    if (changes.length === 0) print(`No changes: the configuration is that of revision ${input.revision}.`)
    else if (revision !== null)
      print(`\nRestored the configuration of ${input.revision} as revision ${revision}.`)
    for (const warning of warnings) printError(`sluice: ${warning}`)
  }
  return input.is_dry_run && changes.length > 0 ? EXIT_CHANGES : 0
}
