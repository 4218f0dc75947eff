import { resolve } from 'node:path'
import { type ParseArgsOptionsConfig, parseArgs } from 'node:util'
import { CommandError, type Report } from './command.ts'
import type { Operations } from './operations.ts'

/** Exit codes of sysexits.h, so that supervisors can tell a typo from a fault. */
export const EXIT = { ok: 0, failed: 1, usage: 64, badData: 65, config: 78 } as const

export type StartOptions = {
  readonly demo: boolean
  readonly port?: string | undefined
  readonly host?: string | undefined
  readonly data?: string | undefined
}

/** What the command line is given by whoever built the program. */
export type CliDeps = {
  readonly version: string
  start(options: StartOptions): Promise<number>
  /** Runs on the server that has the data directory, or takes the directory itself when none runs. */
  operate<Name extends keyof Operations>(
    name: Name,
    input: Parameters<Operations[Name]>[0],
    dataDir: string | undefined,
  ): Promise<Awaited<ReturnType<Operations[Name]>>>
  /** Needs an empty data directory, so nobody else is asked. */
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

/** Every command, by the words that call it. */
const COMMANDS: Readonly<Record<string, Command>> = {
  start: {
    summary: 'start the gateway',
    usage: 'sluice start [--demo] [--port N] [--host H] [--data DIR]',
    options: { demo: { type: 'boolean' }, port: { type: 'string' }, host: { type: 'string' }, ...DATA },
    help: [
      '--demo          try it out: a simulated provider, a channel and a token, in a directory of its own',
      '--port N        where to listen (default: PORT, else 3000)',
      '--host H        on which address (default: HOST, else 127.0.0.1)',
      DATA_HELP,
      'All settings are environment variables; docs/settings.md lists them.',
    ],
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
    summary: 'give a user a new password and end its sessions',
    usage: 'sluice admin reset-password [USERNAME] [--password TEXT] [--revoke-access-tokens] [--data DIR]',
    options: { password: { type: 'string' }, 'revoke-access-tokens': { type: 'boolean' }, ...DATA },
    help: [
      'USERNAME        whose (default: root)',
      '--password TEXT the new one (default: a random one, printed)',
      '--revoke-access-tokens  revoke every system access token of the user as well',
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
    summary: 'make a system access token for a user and print it',
    usage: 'sluice admin access-token [USERNAME] [--name TEXT] [--data DIR]',
    options: { name: { type: 'string' }, ...DATA },
    help: [
      'USERNAME        whose (default: root)',
      '--name TEXT     what to call it (default: command line)',
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
    summary: 'seal everything under the newest secret, while the server runs',
    usage: 'sluice admin rotate-secret [--data DIR]',
    options: DATA,
    help: [
      DATA_HELP,
      'Without SLUICE_SECRET a new secret is made in SLUICE_DATA/secret. With it, start the server with',
      'SLUICE_SECRET=new,old first. It can be interrupted and run again.',
    ],
    positionals: 0,
    run: async (deps, values) =>
      printReport(deps, await deps.operate('rotateSecret', undefined as never, text(values.data))),
  },
  verify: {
    summary: 'recompute chains and balances, and compare journals, anchors and rows with them',
    usage: 'sluice verify [--audit] [--anchor FILE] [--accept-restore REASON] [--data DIR]',
    options: {
      audit: { type: 'boolean' },
      anchor: { type: 'string' },
      'accept-restore': { type: 'string' },
      ...DATA,
    },
    help: [
      '--audit         the audit log only',
      '--anchor FILE   compare a copy of the anchors too: an anchor file, or a log with anchors in it',
      '--accept-restore REASON',
      '                after a restore: give up anchored records that it lost, with an audit record (docs/backup.md)',
      DATA_HELP,
      'Exit 0: everything holds. Exit 65: something does not, and it says what.',
    ],
    positionals: 0,
    run: async (deps, values) => {
      const anchor = text(values.anchor)
      const reason = text(values['accept-restore'])
      const options = {
        auditOnly: values.audit === true,
        // The server stands in another directory.
        ...(anchor !== undefined && { anchorFile: resolve(anchor) }),
        ...(reason !== undefined && { acceptRestore: reason }),
      }
      return printReport(deps, await deps.operate('verify', options, text(values.data)))
    },
  },
  backup: {
    summary: 'copy store and journals into one file, while the server runs or without one',
    usage: 'sluice backup FILE [--data DIR]',
    options: DATA,
    help: [
      'FILE            where to; it must not exist yet',
      DATA_HELP,
      'The master secret is not in it. Exit 0: the file is whole. Exit 1: there is none, and it says why.',
    ],
    positionals: 1,
    run: async (deps, values, [file]) => {
      if (file === undefined) return missing(deps, 'FILE', 'backup')
      // The server stands in another directory.
      return printReport(deps, await deps.operate('backup', { file: resolve(file) }, text(values.data)))
    },
  },
  restore: {
    summary: 'put a backup into an empty data directory',
    usage: 'sluice restore FILE [--data DIR]',
    options: DATA,
    help: [
      'FILE            a file that sluice backup made',
      DATA_HELP,
      'With DATABASE_URL set, the store goes into that database, which must be empty, whatever it came from.',
      'Exit 0: it is there, and the next start ends what was under way. Exit 1: nothing was changed.',
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
    summary: 'print this, or the help of a command',
    usage: 'sluice help [COMMAND]',
    options: {},
    help: [],
    positionals: 2,
    run: async (deps, _values, words) => {
      const command = commandNamed(words)
      if (words.length > 0 && !command) return unknown(deps, words.join(' '))
      deps.print(command ? commandHelp(command) : overview())
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

const commandHelp = ({ usage, summary, help }: Command) =>
  [`${usage}`, '', `  ${summary}`, ...(help.length > 0 ? [''] : []), ...help.map(line => `  ${line}`)].join(
    '\n',
  )

const overview = () =>
  [
    'Sluice, an AI model gateway',
    '',
    ...Object.entries(COMMANDS).map(([name, { summary }]) => `  sluice ${name.padEnd(22)} ${summary}`),
    '',
    'Every command takes --help. Exit codes: 0 done, 1 failed, 64 wrong usage, 65 the books do not hold, 78 a wrong setting.',
  ].join('\n')

function unknown(deps: CliDeps, words: string): number {
  deps.printError(`sluice: there is no command "${words}"; sluice help lists them`)
  return EXIT.usage
}

type CommandMatch = { readonly command: Command; readonly rest: string[] }

/** The longest words that name a command, and what follows them. */
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
  const read = readWords(match)
  if ('fault' in read) {
    deps.printError(`sluice: ${read.fault}\n${command.usage}`)
    return EXIT.usage
  }
  if (read.values.help) {
    deps.print(commandHelp(command))
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

function readWords({
  command,
  rest,
}: CommandMatch): { values: Values; positionals: string[] } | { fault: string } {
  try {
    const { values, positionals } = parseArgs({
      args: rest,
      options: { ...command.options, help: { type: 'boolean', short: 'h' } },
      allowPositionals: true,
    })
    const tooMany = positionals[command.positionals]
    if (tooMany !== undefined && !values.help) return { fault: `"${tooMany}" is one word too many` }
    return { values: values as Values, positionals }
  } catch (error) {
    return { fault: (error as Error).message }
  }
}
