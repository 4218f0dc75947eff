import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import type { ImportReport, ImportRequest } from '../domain/import.ts'
import { CommandError } from './command.ts'
import { type CommandDefinition, DATA, DATA_HELP, type OptionValues, text } from './command-line.ts'
import { readLiteLlmConfig } from './litellm-config.ts'
import type { Operations } from './operations.ts'

/** What these commands need of the command line. */
type ImportCliDeps = {
  operate(
    name: 'importFrom',
    input: ImportRequest,
    dataDir: string | undefined,
  ): ReturnType<Operations['importFrom']>
  variable?(name: string): string | undefined
  print(line: string): void
  printError(line: string): void
}

const OPTIONS = {
  name: { type: 'string' },
  'dry-run': { type: 'boolean' },
  ...DATA,
} as const

const OPTIONS_HELP = [
  '--dry-run       write nothing; report what would be imported, changed or left out',
  '--name NAME     the name that this source is remembered by (default: the kind of gateway); choose one for each',
  '                database if you import several of a kind',
  '--json          print the report as JSON',
  DATA_HELP,
  'Run it again to take over what has changed in the source since; what was changed here stays. An interrupted import',
  'can be run again. Exit 0: imported. Exit 1: the source cannot be read, or the import was interrupted.',
]

const MAX_NAME = /^[\w.-]{1,64}$/
const MAX_LOG_DAYS = 3650

/** A value, or a reference that keeps a secret out of the process list: `env:NAME` or `file:PATH`. */
function resolveReference(deps: ImportCliDeps, option: string, value: string): string {
  if (value.startsWith('env:')) {
    const variable = deps.variable?.(value.slice(4))
    if (!variable)
      throw new CommandError(`--${option}: the environment variable ${value.slice(4)} is not set`)
    return variable
  }
  return value.startsWith('file:') ? readText(`--${option}`, value.slice(5)).trim() : value
}

function readText(option: string, path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    throw new CommandError(`${option}: ${path} cannot be read (${(error as NodeJS.ErrnoException).code})`)
  }
}

/** A file by its absolute path, because the server has another working directory; a URL unchanged. */
const sourceOf = (value: string) => (/^[a-z][a-z0-9+.-]*:\/\/|@tcp\(/i.test(value) ? value : resolve(value))

/** The report as lines: what was done, then every note. */
function reportLines({ source, dry_run, counts, notes, notes_omitted }: ImportReport): string[] {
  const done = Object.entries(counts).map(([area, count]) => {
    const parts = Object.entries(count).filter(([, number]) => number > 0)
    return `  ${area}: ${parts.map(([outcome, number]) => `${number} ${outcome}`).join(', ')}`
  })
  return [
    dry_run ? `dry run of the import from ${source}; nothing was written:` : `imported from ${source}:`,
    ...(done.length === 0 ? ['  nothing'] : done),
    notes.length === 0 ? 'Everything was carried over unchanged.' : `${notes.length} notes:`,
    ...notes.map(({ subject, message }) => `  ${subject}: ${message}`),
    ...(notes_omitted > 0 ? [`  and ${notes_omitted} more`] : []),
  ]
}

/** Options that all imports have; undefined after an error message. */
function common(deps: ImportCliDeps, values: OptionValues, usage: string) {
  const name = text(values.name)
  if (name !== undefined && !MAX_NAME.test(name)) {
    deps.printError(`sluice: --name must have 1 to 64 letters, digits, dots, dashes or underscores\n${usage}`)
    return undefined
  }
  return { dryRun: values['dry-run'] === true, ...(name !== undefined && { name }) }
}

async function runImport(deps: ImportCliDeps, values: OptionValues, request: ImportRequest): Promise<number> {
  const report = await deps.operate('importFrom', request, text(values.data))
  if (values.json === true) deps.print(JSON.stringify(report))
  else for (const line of reportLines(report)) deps.print(line)
  return 0
}

const USAGE_ERROR = 64

function gatewayCommand(kind: 'new-api' | 'one-api'): CommandDefinition<ImportCliDeps> {
  const usage = `sluice import ${kind} --from DATABASE [--dry-run] [--logs DAYS] [--name NAME] [--json] [--data DIR]`
  return {
    summary: `import users, balances, tokens, channels and prices of ${kind}`,
    usage,
    options: { from: { type: 'string' }, logs: { type: 'string' }, ...OPTIONS },
    help: [
      '--from DATABASE an SQLite file, mysql://…, user:password@tcp(host:port)/database, or postgres://…; or env:NAME or',
      '                file:PATH, where the URL is, so that its password is not in the list of processes',
      '--logs DAYS     also import the usage rows of the last DAYS days',
      ...OPTIONS_HELP,
      `Example: sluice import ${kind} --from /srv/${kind}/one-api.db --dry-run`,
      'docs/moving/new-api.md describes what is carried over, and the way back.',
    ],
    positionals: 0,
    run: async (deps, values) => {
      const from = text(values.from)
      if (from === undefined) return fail(deps, usage, '--from is missing')
      const days = text(values.logs)
      const logDays = Number(days)
      if (days !== undefined && !(Number.isInteger(logDays) && logDays >= 1 && logDays <= MAX_LOG_DAYS))
        return fail(deps, usage, `--logs must be a number of days from 1 to ${MAX_LOG_DAYS}`)
      const options = common(deps, values, usage)
      if (!options) return USAGE_ERROR
      return runImport(deps, values, {
        kind,
        from: sourceOf(resolveReference(deps, 'from', from)),
        ...options,
        ...(days !== undefined && { logDays }),
      })
    },
  }
}

const fail = (deps: ImportCliDeps, usage: string, message: string): number => {
  deps.printError(`sluice: ${message}\n${usage}`)
  return USAGE_ERROR
}

const LITELLM_USAGE =
  'sluice import litellm --config FILE [--database URL] [--dry-run] [--name NAME] [--json] [--data DIR]'

const litellmCommand: CommandDefinition<ImportCliDeps> = {
  summary: 'import models, keys, users, teams and budgets of LiteLLM',
  usage: LITELLM_USAGE,
  options: { config: { type: 'string' }, database: { type: 'string' }, ...OPTIONS },
  help: [
    '--config FILE   config.yaml of LiteLLM. os.environ/NAME in it is read from the environment of this command',
    '--database URL  its database, postgres://…, for users, teams and keys; or env:NAME or file:PATH, where the URL is',
    ...OPTIONS_HELP,
    'Example: sluice import litellm --config /etc/litellm/config.yaml --database env:DATABASE_URL --dry-run',
    'docs/moving/litellm.md describes what is carried over, and the way back.',
  ],
  positionals: 0,
  run: async (deps, values) => {
    const path = text(values.config)
    if (path === undefined) return fail(deps, LITELLM_USAGE, '--config is missing')
    const options = common(deps, values, LITELLM_USAGE)
    if (!options) return USAGE_ERROR
    const database = text(values.database)
    const config = await readLiteLlmConfig(path, {
      variable: name => deps.variable?.(name),
      readText: file => readText('--config', file),
    })
    return runImport(deps, values, {
      kind: 'litellm',
      config,
      ...options,
      ...(database !== undefined && { database: sourceOf(resolveReference(deps, 'database', database)) }),
    })
  },
}

const PRICE_OPTIONS = { replace: { type: 'boolean' }, ...OPTIONS } as const
const PRICE_HELP = '--replace       also replace prices that were set here, or come from another source'

const CSV_USAGE = 'sluice import csv FILE [--replace] [--dry-run] [--name NAME] [--json] [--data DIR]'

const csvCommand: CommandDefinition<ImportCliDeps> = {
  summary: 'import prices from a table',
  usage: CSV_USAGE,
  options: PRICE_OPTIONS,
  help: [
    'FILE            a CSV file. Its first line names the columns: model, input, output, cached_input …, the fields of',
    '                POST /api/price/, in USD per million tokens or per unit. An empty cell is no price',
    PRICE_HELP,
    ...OPTIONS_HELP,
    'Example: sluice import csv prices.csv --dry-run',
  ],
  positionals: 1,
  run: async (deps, values, [path]) => {
    if (path === undefined) return fail(deps, CSV_USAGE, 'FILE is missing')
    const options = common(deps, values, CSV_USAGE)
    if (!options) return USAGE_ERROR
    const request = {
      kind: 'csv',
      text: readText('FILE', path),
      isReplacing: values.replace === true,
    } as const
    return runImport(deps, values, { ...request, ...options })
  },
}

const OPENROUTER_URL = 'https://openrouter.ai/api/v1/models'
const OPENROUTER_USAGE =
  'sluice import openrouter [--from FILE|URL] [--all] [--replace] [--dry-run] [--name NAME] [--json] [--data DIR]'
const DOWNLOAD_MS = 60_000
const MAX_LIST_BYTES = 12 * 1024 * 1024

/** The list of models: downloaded here, by the operator's command, and not by the gateway. */
async function readModelList(from: string): Promise<unknown> {
  const refuse = (why: string) => new CommandError(`the list of models at ${from} cannot be read: ${why}`)
  let list: string
  if (/^https?:\/\//.test(from)) {
    const response = await fetch(from, { signal: AbortSignal.timeout(DOWNLOAD_MS) }).catch(error => {
      const { message, cause } = error as Error
      const reason = (cause as Error | undefined)?.message ?? message
      throw refuse(`${reason}. Download it with a browser and use --from FILE`)
    })
    if (!response.ok) throw refuse(`status ${response.status}`)
    list = await response.text()
  } else list = readText('--from', from)
  if (list.length > MAX_LIST_BYTES) throw refuse('it is larger than 12 MiB')
  try {
    return JSON.parse(list)
  } catch {
    throw refuse('it is no valid JSON')
  }
}

const openrouterCommand: CommandDefinition<ImportCliDeps> = {
  summary: 'import prices of OpenRouter',
  usage: OPENROUTER_USAGE,
  options: { from: { type: 'string' }, all: { type: 'boolean' }, ...PRICE_OPTIONS },
  help: [
    `--from FILE|URL the list of models (default: ${OPENROUTER_URL})`,
    '--all           import the prices of all models (default: of those that enabled channels serve)',
    PRICE_HELP,
    ...OPTIONS_HELP,
    'Example: sluice import openrouter --dry-run',
  ],
  positionals: 0,
  run: async (deps, values) => {
    const options = common(deps, values, OPENROUTER_USAGE)
    if (!options) return USAGE_ERROR
    const models = await readModelList(text(values.from) ?? OPENROUTER_URL)
    const request = { kind: 'openrouter', models, isWhole: values.all === true } as const
    return runImport(deps, values, { ...request, isReplacing: values.replace === true, ...options })
  },
}

export const importCommands: Readonly<Record<string, CommandDefinition<ImportCliDeps>>> = {
  'import new-api': gatewayCommand('new-api'),
  'import one-api': gatewayCommand('one-api'),
  'import litellm': litellmCommand,
  'import openrouter': openrouterCommand,
  'import csv': csvCommand,
}
