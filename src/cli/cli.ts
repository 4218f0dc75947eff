import { resolve } from 'node:path'
import { type ParseArgsOptionsConfig, parseArgs } from 'node:util'
import { CommandError, type Report, type RequestExplanation, type TestRun } from './command.ts'
import type { Operations } from './operations.ts'

/** Exit codes of sysexits.h, so that process managers can distinguish wrong usage from a failure. */
export const EXIT = { ok: 0, failed: 1, usage: 64, badData: 65, config: 78 } as const

export type StartOptions = {
  readonly demo: boolean
  readonly port?: string | undefined
  readonly host?: string | undefined
  readonly data?: string | undefined
}

export type CliDeps = {
  readonly version: string
  /** One line for each environment variable, for the help of `start`. */
  settingsHelp(): readonly string[]
  start(options: StartOptions): Promise<number>
  /** Runs an operation on the running server of the data directory, or in this process if none runs. */
  operate<Name extends keyof Operations>(
    name: Name,
    input: Parameters<Operations[Name]>[0],
    dataDir: string | undefined,
  ): Promise<Awaited<ReturnType<Operations[Name]>>>
  /** Needs an empty data directory, so there is no running server to call. */
  restore(file: string, dataDir: string | undefined): Promise<Report>
  print(line: string): void
  printError(line: string): void
}

type Values = Readonly<Record<string, string | boolean | undefined>>
type Command = {
  readonly summary: string
  readonly usage: string
  readonly options: ParseArgsOptionsConfig
  readonly help: readonly string[]
  readonly listsSettings?: true
  readonly positionals: number
  run(deps: CliDeps, values: Values, positionals: readonly string[]): Promise<number>
}

const text = (value: string | boolean | undefined) => (typeof value === 'string' ? value : undefined)
const DATA = { data: { type: 'string' } } as const
const DATA_HELP = '--data DIR      the data directory (default: SLUICE_DATA, else ./data)'

function printReport(deps: CliDeps, { ok, lines }: Report): number {
  for (const line of lines) deps.print(line)
  return ok ? EXIT.ok : EXIT.badData
}

function explanationLines({ request, rule, sentences }: RequestExplanation): string[] {
  const time = request && new Date(request.created_at * 1000).toISOString()
  return [...(request ? [`${request.request_id}  ${time}  rule: ${rule}`] : []), ...sentences]
}

function runLines({ passed, failed, results }: TestRun): string[] {
  const lines = results.map(result => {
    const outcome = result.passed ? 'pass' : 'FAIL'
    const figures = `${result.model}, ${result.ms} ms, $${result.cost}`
    return `${outcome}  ${result.name}  (${figures})${result.passed ? '' : `  ${result.reason}`}`
  })
  return [...lines, `${passed} passed, ${failed} failed`]
}

/** Every command, by its name. */
const COMMANDS: Readonly<Record<string, Command>> = {
  start: {
    summary: 'start the gateway',
    usage: 'sluice start [--demo] [--port N] [--host H] [--data DIR]',
    options: { demo: { type: 'boolean' }, port: { type: 'string' }, host: { type: 'string' }, ...DATA },
    help: [
      '--demo          try Sluice with a simulated provider, a channel and a token, in a temporary directory',
      '--port N        the port to listen on (default: PORT, else 3000)',
      '--host H        the address to listen on (default: HOST, else 127.0.0.1)',
      DATA_HELP,
      'All settings are environment variables; docs/operating/settings.md lists them.',
    ],
    listsSettings: true,
    positionals: 0,
    run: (deps, values) =>
      deps.start({
        demo: values.demo === true,
        port: text(values.port),
        host: text(values.host),
        data: text(values.data),
      }),
  },
  'admin reset-password': {
    summary: 'set a new password for a user and sign out all sessions of the user',
    usage: 'sluice admin reset-password [USERNAME] [--password TEXT] [--revoke-access-tokens] [--data DIR]',
    options: { password: { type: 'string' }, 'revoke-access-tokens': { type: 'boolean' }, ...DATA },
    help: [
      'USERNAME        the user (default: root)',
      '--password TEXT the new password (default: a random one, printed)',
      '--revoke-access-tokens  also revoke all system access tokens of the user',
      DATA_HELP,
    ],
    positionals: 1,
    run: async (deps, values, [username = 'root']) => {
      const password = text(values.password)
      const revokeAccessTokens = values['revoke-access-tokens'] === true
      const input = { username, revokeAccessTokens, ...(password === undefined ? {} : { password }) }
      const done = await deps.operate('resetPassword', input, text(values.data))
      deps.print(
        password === undefined
          ? `password of ${username}: ${done.password}`
          : `password of ${username} changed`,
      )
      return EXIT.ok
    },
  },
  'admin access-token': {
    summary: 'create a system access token for a user and print it',
    usage: 'sluice admin access-token [USERNAME] [--name TEXT] [--data DIR]',
    options: { name: { type: 'string' }, ...DATA },
    help: [
      'USERNAME        the user (default: root)',
      '--name TEXT     the name of the token (default: command line)',
      DATA_HELP,
    ],
    positionals: 1,
    run: async (deps, values, [username = 'root']) => {
      const input = { username, name: text(values.name) ?? 'command line' }
      deps.print((await deps.operate('accessToken', input, text(values.data))).token)
      return EXIT.ok
    },
  },
  'admin rotate-secret': {
    summary: 'encrypt all stored secrets under a new master secret, while the gateway runs',
    usage: 'sluice admin rotate-secret [--data DIR]',
    options: DATA,
    help: [
      DATA_HELP,
      'Without SLUICE_SECRET, the command writes a new secret to SLUICE_DATA/secret. With SLUICE_SECRET,',
      'start the gateway with SLUICE_SECRET=new,old first. An interrupted rotation can be run again.',
    ],
    positionals: 0,
    run: async (deps, values) =>
      printReport(deps, await deps.operate('rotateSecret', undefined as never, text(values.data))),
  },
  explain: {
    summary: 'explain why a request failed',
    usage: 'sluice explain TEXT [--json] [--data DIR]',
    options: { json: { type: 'boolean' }, ...DATA },
    help: [
      'TEXT            a request ID (req_…), the ID that a provider gave it, or the text of an error',
      '--json          print the whole explanation as JSON, as GET /api/log/explain returns it',
      DATA_HELP,
      'Example: sluice explain req_01KCXZ6X4D8M3V9T2B7N5Q1R0S',
      'Exit 0: the request was found. Exit 1: no request matches.',
    ],
    positionals: 1,
    run: async (deps, values, [question]) => {
      if (question === undefined) return missing(deps, 'TEXT', 'explain')
      const explanation = await deps.operate('explain', { text: question }, text(values.data))
      if (values.json === true) deps.print(JSON.stringify(explanation))
      else for (const line of explanationLines(explanation)) deps.print(line)
      return EXIT.ok
    },
  },
  replay: {
    summary: 'send saved tests again and check their answers',
    usage: 'sluice replay [--model M] [--channel ID] [--user NAME] [--json] [--data DIR]',
    options: {
      model: { type: 'string' },
      channel: { type: 'string' },
      user: { type: 'string' },
      json: { type: 'boolean' },
      ...DATA,
    },
    help: [
      '--model M       send the requests to this model (default: their own)',
      '--channel ID    send the requests to this channel only, also if it is disabled',
      '--user NAME     run and charge the tests of this user (default: root)',
      '--json          print the results as JSON, as POST /api/replay/run returns them',
      DATA_HELP,
      'The gateway must run. Exit 0: every test passed. Exit 1: a test failed, there are no tests, or they could not run.',
    ],
    positionals: 0,
    run: async (deps, values) => {
      const [model, channel] = [text(values.model), text(values.channel)]
      if (channel !== undefined && !/^[1-9]\d{0,15}$/.test(channel)) {
        deps.printError(`sluice: --channel must be the ID of a channel\n${COMMANDS.replay?.usage}`)
        return EXIT.usage
      }
      const input = {
        username: text(values.user) ?? 'root',
        ...(model !== undefined && { model }),
        ...(channel !== undefined && { channel_id: Number(channel) }),
      }
      const run = await deps.operate('replay', input, text(values.data))
      if (values.json === true) deps.print(JSON.stringify(run))
      else for (const line of runLines(run)) deps.print(line)
      return run.failed === 0 && run.passed > 0 ? EXIT.ok : EXIT.failed
    },
  },
  verify: {
    summary: 'check the ledger: recompute chains and balances, compare journals, anchors and rows',
    usage: 'sluice verify [--audit] [--anchor FILE] [--accept-restore REASON] [--data DIR]',
    options: {
      audit: { type: 'boolean' },
      anchor: { type: 'string' },
      'accept-restore': { type: 'string' },
      ...DATA,
    },
    help: [
      '--audit         check the audit log only',
      '--anchor FILE   also compare a copy of the anchors: an anchor file, or a log that contains anchors',
      '--accept-restore REASON',
      '                after a restore: accept the loss of anchored records and write an audit record about it',
      '                (docs/operating/verify.md)',
      DATA_HELP,
      'Exit 0: every check passed. Exit 65: a check failed; the output names it.',
    ],
    positionals: 0,
    run: async (deps, values) => {
      const anchor = text(values.anchor)
      const reason = text(values['accept-restore'])
      const options = {
        auditOnly: values.audit === true,
        // The server has another working directory.
        ...(anchor !== undefined && { anchorFile: resolve(anchor) }),
        ...(reason !== undefined && { acceptRestore: reason }),
      }
      return printReport(deps, await deps.operate('verify', options, text(values.data)))
    },
  },
  backup: {
    summary: 'back up the database and journals into one file, while the gateway runs or is stopped',
    usage: 'sluice backup FILE [--data DIR]',
    options: DATA,
    help: [
      'FILE            the file to write; it must not exist yet',
      DATA_HELP,
      'The backup does not contain the master secret. Exit 0: the file is complete. Exit 1: no file was written.',
    ],
    positionals: 1,
    run: async (deps, values, [file]) => {
      if (file === undefined) return missing(deps, 'FILE', 'backup')
      // The server has another working directory.
      return printReport(deps, await deps.operate('backup', { file: resolve(file) }, text(values.data)))
    },
  },
  restore: {
    summary: 'restore a backup into an empty data directory',
    usage: 'sluice restore FILE [--data DIR]',
    options: DATA,
    help: [
      'FILE            a file written by sluice backup',
      DATA_HELP,
      'With DATABASE_URL set, the data goes into that database, which must be empty. A backup from SQLite can be',
      'restored into PostgreSQL and vice versa. Exit 0: restored. Exit 1: nothing was changed.',
    ],
    positionals: 1,
    run: async (deps, values, [file]) =>
      file === undefined
        ? missing(deps, 'FILE', 'restore')
        : printReport(deps, await deps.restore(resolve(file), text(values.data))),
  },
  version: {
    summary: 'print the version',
    usage: 'sluice version',
    options: {},
    help: [],
    positionals: 0,
    run: async deps => {
      deps.print(deps.version)
      return EXIT.ok
    },
  },
  help: {
    summary: 'print this list, or the help of one command',
    usage: 'sluice help [COMMAND]',
    options: {},
    help: [],
    positionals: 2,
    run: async (deps, _values, words) => {
      const command = commandNamed(words)
      if (words.length > 0 && !command) return unknown(deps, words.join(' '))
      deps.print(command ? commandHelp(command, deps) : overview())
      return EXIT.ok
    },
  },
}

function missing(deps: CliDeps, word: string, command: string): number {
  deps.printError(`sluice: ${word} is missing\n${COMMANDS[command]?.usage}`)
  return EXIT.usage
}

function commandNamed(words: readonly string[]): Command | undefined {
  const name = words.join(' ')
  return Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined
}

function commandHelp(
  { usage, summary, help, listsSettings }: Command,
  { settingsHelp }: Pick<CliDeps, 'settingsHelp'>,
): string {
  const details = listsSettings ? [...help, '', ...settingsHelp()] : help
  return [usage, '', summary, ...(details.length > 0 ? [''] : []), ...details]
    .map((line, index) => (index === 0 || line === '' ? line : `  ${line}`))
    .join('\n')
}

const overview = () =>
  [
    'Sluice, an AI model gateway',
    '',
    ...Object.entries(COMMANDS).map(([name, { summary }]) => `  sluice ${name.padEnd(22)} ${summary}`),
    '',
    'Run "sluice COMMAND --help" for details. In a source checkout, run ./sluice instead of sluice.',
    'Exit codes: 0 success, 1 failure, 64 invalid usage, 65 damaged data or ledger, 78 invalid setting.',
  ].join('\n')

function unknown(deps: CliDeps, words: string): number {
  deps.printError(`sluice: unknown command "${words}"; run "sluice help" for a list`)
  return EXIT.usage
}

type CommandMatch = { readonly command: Command; readonly rest: string[] }

/** The command with the longest matching name, and the remaining arguments. */
function find(argv: readonly string[]): CommandMatch | undefined {
  for (const count of [2, 1]) {
    const command = commandNamed(argv.slice(0, count))
    if (command && argv.length >= count) return { command, rest: argv.slice(count) }
  }
  return undefined
}

export async function runCli(argv: readonly string[], deps: CliDeps): Promise<number> {
  if (argv.length === 0 || argv[0] === '--help' || argv[0] === '-h') {
    deps.print(overview())
    return argv.length === 0 ? EXIT.usage : EXIT.ok
  }
  if (argv[0] === '--version' || argv[0] === '-v') return COMMANDS.version?.run(deps, {}, []) ?? EXIT.failed
  const match = find(argv)
  if (!match) return unknown(deps, argv.slice(0, 2).join(' '))
  const { command } = match
  const read = readArguments(match)
  if ('fault' in read) {
    deps.printError(`sluice: ${read.fault}\n${command.usage}`)
    return EXIT.usage
  }
  if (read.values.help) {
    deps.print(commandHelp(command, deps))
    return EXIT.ok
  }
  try {
    return await command.run(deps, read.values, read.positionals)
  } catch (error) {
    if (!(error instanceof CommandError)) throw error
    deps.printError(`sluice: ${error.message}`)
    return EXIT.failed
  }
}

function readArguments({
  command,
  rest,
}: CommandMatch): { values: Values; positionals: string[] } | { fault: string } {
  try {
    const { values, positionals } = parseArgs({
      args: rest,
      options: { ...command.options, help: { type: 'boolean', short: 'h' } },
      allowPositionals: true,
    })
    const surplus = positionals[command.positionals]
    if (surplus !== undefined && !values.help) return { fault: `unexpected argument "${surplus}"` }
    return { values: values as Values, positionals }
  } catch (error) {
    return { fault: (error as Error).message }
  }
}
