import { resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { printable } from '../domain/text.ts'
import { canaryCommands } from './canaries.ts'
import { CommandError, type Report, type RequestExplanation, type TestRun } from './command.ts'
import {
  type CommandDefinition,
  DATA,
  DATA_HELP,
  EXIT,
  JSON_HELP,
  type OptionValues,
  show,
  text,
} from './command-line.ts'
import { completionScript, SHELL_NAMES } from './completion.ts'
import { runApply, runExport, runRollback } from './config-commands.ts'
import { revisionChangeLines, revisionLine, revisionLines } from './config-plan.ts'
import { type Finding, findingLines } from './finding.ts'
import { importCommands } from './import.ts'
import { nodeLines } from './nodes.ts'
import type { Operations } from './operations.ts'

export type StartOptions = {
  readonly demo: boolean
  /** The number of nodes of the demo, if there are several. */
  readonly nodes?: number | undefined
  readonly port?: string | undefined
  readonly host?: string | undefined
  readonly data?: string | undefined
  /** Writes the log as JSON lines, on a terminal too. */
  readonly json: boolean
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
  /** Needs a stopped gateway on SQLite. */
  migrate(url: string, dataDir: string | undefined): Promise<Report>
  /** Examines settings, machine, store and network. It changes nothing and needs no running gateway. */
  examine(dataDir: string | undefined): Promise<readonly Finding[]>
  /** A variable of the environment. */
  variable?(name: string): string | undefined
  /** The JSON schema of configuration files. */
  configSchema(): Promise<unknown>
  print(line: string): void
  printError(line: string): void
}

type Command = CommandDefinition<CliDeps>

/** Every command takes these. */
const COMMON_OPTIONS = { help: { type: 'boolean', short: 'h' }, json: { type: 'boolean' } } as const

function printReport(deps: CliDeps, values: OptionValues, report: Report): number {
  show(deps, values, { json: report, lines: report.lines })
  return report.ok ? EXIT.ok : EXIT.badData
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
  if (results.length === 0)
    return ['There are no saved tests: save one in the console, or by POST /api/replay/test/.']
  return [...lines, `${passed} passed, ${failed} failed`]
}

/** Every command, by its name. */
const COMMANDS: Readonly<Record<string, Command>> = {
  start: {
    summary: 'start the gateway',
    usage: 'sluice start [--demo [--nodes N]] [--port N] [--host H] [--json] [--data DIR]',
    options: {
      demo: { type: 'boolean' },
      nodes: { type: 'string' },
      port: { type: 'string' },
      host: { type: 'string' },
      ...DATA,
    },
    help: [
      '--demo          try Sluice with a simulated provider, a channel and a token, in a temporary directory',
      '--nodes N       with --demo: 2 to 9 nodes that share a PostgreSQL, which a checkout has (docs/operating/fleet.md)',
      '--port N        the port to listen on (default: PORT, else 3000)',
      '--host H        the address to listen on (default: HOST, else 127.0.0.1)',
      DATA_HELP,
      '--json          write the log as JSON lines, on a terminal too (SLUICE_LOG_FORMAT=json)',
      'Example: sluice start --port 8080 --data /var/lib/sluice',
      'Exit 0: stopped by a signal, all requests are settled. Exit 1: the start failed. Exit 65: a journal is damaged.',
      'Exit 78: a setting is invalid.',
      'All settings are environment variables; docs/operating/settings.md lists them.',
    ],
    listsSettings: true,
    positionals: 0,
    run: async (deps, values) => {
      const nodes = text(values.nodes)
      if (nodes !== undefined && !(values.demo === true && /^[2-9]$/.test(nodes))) {
        deps.printError(`sluice: --nodes must be a number from 2 to 9, with --demo\n${COMMANDS.start?.usage}`)
        return EXIT.usage
      }
      return deps.start({
        demo: values.demo === true,
        nodes: nodes === undefined ? undefined : Number(nodes),
        port: text(values.port),
        host: text(values.host),
        data: text(values.data),
        json: values.json === true,
      })
    },
  },
  'admin reset-password': {
    summary: 'set a new password for a user and sign out all sessions of the user',
    usage:
      'sluice admin reset-password [USERNAME] [--password TEXT] [--revoke-access-tokens] [--json] [--data DIR]',
    options: { password: { type: 'string' }, 'revoke-access-tokens': { type: 'boolean' }, ...DATA },
    help: [
      'USERNAME        the user (default: root)',
      '--password TEXT the new password (default: a random one, printed)',
      '--revoke-access-tokens  also revoke all system access tokens of the user',
      JSON_HELP,
      DATA_HELP,
      'Example: sluice admin reset-password alice',
      'Exit 0: the password was changed. Exit 1: there is no such user, or the password is too short.',
    ],
    positionals: 1,
    run: async (deps, values, [username = 'root']) => {
      const password = text(values.password)
      const revokeAccessTokens = values['revoke-access-tokens'] === true
      const input = { username, revokeAccessTokens, ...(password === undefined ? {} : { password }) }
      const done = await deps.operate('resetPassword', input, text(values.data))
      show(deps, values, {
        json: { username, ...(password === undefined && { password: done.password }) },
        lines: [
          password === undefined
            ? `password of ${username}: ${done.password}`
            : `password of ${username} changed`,
        ],
      })
      return EXIT.ok
    },
  },
  'admin access-token': {
    summary: 'create a system access token for a user and print it',
    usage: 'sluice admin access-token [USERNAME] [--name TEXT] [--json] [--data DIR]',
    options: { name: { type: 'string' }, ...DATA },
    help: [
      'USERNAME        the user (default: root)',
      '--name TEXT     the name of the token (default: command line)',
      JSON_HELP,
      DATA_HELP,
      'Example: export SAT=$(sluice admin access-token root)',
      'Exit 0: the token was created and printed. Exit 1: there is no such user, or TEXT has not 1 to 50 characters.',
    ],
    positionals: 1,
    run: async (deps, values, [username = 'root']) => {
      const input = { username, name: text(values.name) ?? 'command line' }
      const { token } = await deps.operate('accessToken', input, text(values.data))
      show(deps, values, { json: { username, token }, lines: [token] })
      return EXIT.ok
    },
  },
  'admin rotate-secret': {
    summary: 'encrypt all stored secrets under a new master secret, while the gateway runs',
    usage: 'sluice admin rotate-secret [--json] [--data DIR]',
    options: DATA,
    help: [
      JSON_HELP,
      DATA_HELP,
      'Without SLUICE_SECRET, the command writes a new secret to SLUICE_DATA/secret. With SLUICE_SECRET,',
      'start the gateway with SLUICE_SECRET=new,old first. An interrupted rotation can be run again.',
      'Example: sluice admin rotate-secret --data /var/lib/sluice',
      'Exit 0: everything is encrypted under the new secret. Exit 1: it failed; run it again.',
    ],
    positionals: 0,
    run: async (deps, values) =>
      printReport(deps, values, await deps.operate('rotateSecret', undefined as never, text(values.data))),
  },
  explain: {
    summary: 'explain why a request failed',
    usage: 'sluice explain TEXT [--json] [--data DIR]',
    options: DATA,
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
      show(deps, values, { json: explanation, lines: explanationLines(explanation) })
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
      ...DATA,
    },
    help: [
      '--model M       send the requests to this model (default: their own)',
      '--channel ID    send the requests to this channel only, also if it is disabled',
      '--user NAME     run and charge the tests of this user (default: root)',
      '--json          print the results as JSON, as POST /api/replay/run returns them',
      DATA_HELP,
      'Example: sluice replay --model gpt-5-mini',
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
      show(deps, values, { json: run, lines: runLines(run) })
      return run.failed === 0 && run.passed > 0 ? EXIT.ok : EXIT.failed
    },
  },
  apply: {
    summary: 'apply a configuration file, or show what it would change',
    usage:
      'sluice apply -f FILE|DIR [--dry-run] [--prune] [--secrets-out FILE] [--reason TEXT] [--json] [--data DIR]',
    options: {
      file: { type: 'string', short: 'f', multiple: true },
      'dry-run': { type: 'boolean' },
      prune: { type: 'boolean' },
      'secrets-out': { type: 'string' },
      reason: { type: 'string' },
      ...DATA,
    },
    help: [
      '-f FILE|DIR     a YAML or JSON file, or a directory of them; may be repeated',
      '--dry-run       print the changes, but make none',
      '--prune         delete what an earlier file had and these files do not have',
      '--secrets-out FILE  write the values of new tokens to this file, which only its owner can read',
      '--reason TEXT   the reason that the revision gets (default: the names of the files)',
      '--json          print the changes as JSON',
      DATA_HELP,
      'Example: sluice apply -f sluice.yaml --dry-run',
      'Everything is applied in one transaction, and is in effect at once. A second run changes nothing.',
      'Exit 0: applied, or a dry run without changes. Exit 2: a dry run with changes. Exit 1: nothing was changed.',
    ],
    positionals: 0,
    run: async (deps, values) => {
      const files = (values.file ?? []) as readonly string[]
      if (files.length === 0) return missing(deps, '-f FILE', 'apply')
      const options = {
        files,
        variable: deps.variable,
        isDryRun: values['dry-run'] === true,
        isPruning: values.prune === true,
        isJson: values.json === true,
        secretsFile: text(values['secrets-out']),
        reason: text(values.reason),
      }
      return runApply(deps, options, input => deps.operate('applyConfig', input, text(values.data)))
    },
  },
  export: {
    summary: 'write the configuration as a file for sluice apply',
    usage: 'sluice export [FILE] [--json] [--data DIR]',
    options: DATA,
    help: [
      'FILE            the file to write; it must not exist yet (default: standard output)',
      '--json          write JSON instead of YAML',
      DATA_HELP,
      'Example: sluice export sluice.yaml',
      'Secrets are left out. Exit 0: written. Exit 1: no file was written.',
    ],
    positionals: 1,
    run: (deps, values, [file]) =>
      runExport(deps, { file, isJson: values.json === true }, () =>
        deps.operate('exportConfig', {}, text(values.data)),
      ),
  },
  'config log': {
    summary: 'list the revisions of the configuration, newest first',
    usage: 'sluice config log [--limit N] [--json] [--data DIR]',
    options: { limit: { type: 'string' }, ...DATA },
    help: [
      '--limit N       how many, 1 to 500 (default: 20)',
      DATA_HELP,
      'Example: sluice config log --limit 5',
      'Exit 0: printed.',
    ],
    positionals: 0,
    run: async (deps, values) => {
      const limit = numberIn(text(values.limit) ?? '20', 500)
      if (limit === undefined) return wrong(deps, '--limit must be a number from 1 to 500', 'config log')
      const revisions = await deps.operate('configLog', { limit }, text(values.data))
      show(deps, values, { json: revisions, lines: revisions.map(revisionLine) })
      return EXIT.ok
    },
  },
  'config show': {
    summary: 'print a revision with its author, reason and changes',
    usage: 'sluice config show N [--json] [--data DIR]',
    options: DATA,
    help: [
      'N               the number of the revision',
      DATA_HELP,
      'Example: sluice config show 12',
      'Exit 0: printed. Exit 1: there is no such revision.',
    ],
    positionals: 1,
    run: async (deps, values, [number = '']) => {
      const revision = numberIn(number)
      if (revision === undefined) return missing(deps, 'N', 'config show')
      const whole = await deps.operate('configRevision', { revision }, text(values.data))
      show(deps, values, { json: whole, lines: revisionLines(whole) })
      return EXIT.ok
    },
  },
  'config diff': {
    summary: 'print what changed between two revisions',
    usage: 'sluice config diff N [M] [--json] [--data DIR]',
    options: DATA,
    help: [
      'N, M            the numbers of the revisions (default for M: the last one)',
      DATA_HELP,
      'Example: sluice config diff 12 15',
      'Exit 0: printed. Exit 1: there is no such revision.',
    ],
    positionals: 2,
    run: async (deps, values, [first = '', second]) => {
      const from = numberIn(first)
      const to = second === undefined ? undefined : numberIn(second)
      if (from === undefined || (second !== undefined && to === undefined))
        return missing(deps, 'N', 'config diff')
      const diff = await deps.operate('configDiff', { from, to }, text(values.data))
      const lines = revisionChangeLines(diff.changes)
      show(deps, values, { json: diff, lines: lines.length === 0 ? ['No differences.'] : lines })
      return EXIT.ok
    },
  },
  'config rollback': {
    summary: 'restore the configuration of a revision, as a new revision',
    usage: 'sluice config rollback N [--dry-run] [--reason TEXT] [--json] [--data DIR]',
    options: { 'dry-run': { type: 'boolean' }, reason: { type: 'string' }, ...DATA },
    help: [
      'N               the number of the revision whose configuration is restored',
      '--dry-run       print the changes, but make none',
      '--reason TEXT   the reason that the new revision gets',
      DATA_HELP,
      'Example: sluice config rollback 12 --dry-run',
      'Money, usage, users and tokens stay as they are. Secrets are in no revision: a deleted channel comes back',
      'with a new id, without keys and disabled.',
      'Exit 0: restored, or a dry run without changes. Exit 2: a dry run with changes. Exit 1: nothing was changed.',
    ],
    positionals: 1,
    run: async (deps, values, [number = '']) => {
      const revision = numberIn(number)
      if (revision === undefined) return missing(deps, 'N', 'config rollback')
      const input = { revision, reason: text(values.reason), is_dry_run: values['dry-run'] === true }
      return runRollback(deps, { input, isJson: values.json === true }, () =>
        deps.operate('configRollback', input, text(values.data)),
      )
    },
  },
  'config schema': {
    summary: 'print the JSON schema of configuration files, for editors',
    usage: 'sluice config schema [--json]',
    options: {},
    help: [
      '--json          print it on one line',
      'Example: sluice config schema > sluice.schema.json',
      'Exit 0: always.',
    ],
    positionals: 0,
    run: async (deps, values) => {
      deps.print(JSON.stringify(await deps.configSchema(), null, values.json === true ? 0 : 2))
      return EXIT.ok
    },
  },
  verify: {
    summary: 'check the ledger: recompute chains and balances, compare journals, anchors and rows',
    usage: 'sluice verify [--audit] [--anchor FILE] [--accept-restore REASON] [--json] [--data DIR]',
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
      JSON_HELP,
      DATA_HELP,
      'Example: sluice verify --anchor /mnt/anchors/anchors.log',
      'Exit 0: every check passed. Exit 65: a check failed; the output names it. Exit 1: FILE cannot be read, or has no anchors.',
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
      return printReport(deps, values, await deps.operate('verify', options, text(values.data)))
    },
  },
  backup: {
    summary: 'back up the database and journals into one file, while the gateway runs or is stopped',
    usage: 'sluice backup FILE [--json] [--data DIR]',
    options: DATA,
    help: [
      'FILE            the file to write; it must not exist yet',
      JSON_HELP,
      DATA_HELP,
      'Example: sluice backup /backups/sluice-$(date +%F).backup',
      'The backup does not contain the master secret. Exit 0: the file is complete. Exit 1: no file was written.',
    ],
    positionals: 1,
    run: async (deps, values, [file]) => {
      if (file === undefined) return missing(deps, 'FILE', 'backup')
      // The server has another working directory.
      return printReport(
        deps,
        values,
        await deps.operate('backup', { file: resolve(file) }, text(values.data)),
      )
    },
  },
  restore: {
    summary: 'restore a backup into an empty data directory',
    usage: 'sluice restore FILE [--json] [--data DIR]',
    options: DATA,
    help: [
      'FILE            a file written by sluice backup',
      JSON_HELP,
      DATA_HELP,
      'Example: sluice restore /backups/sluice-2026-11-01.backup --data /var/lib/sluice',
      'With DATABASE_URL set, the data goes into that database, which must be empty. A backup from SQLite can be',
      'restored into PostgreSQL and vice versa. Exit 0: restored. Exit 1: nothing was changed.',
    ],
    positionals: 1,
    run: async (deps, values, [file]) =>
      file === undefined
        ? missing(deps, 'FILE', 'restore')
        : printReport(deps, values, await deps.restore(resolve(file), text(values.data))),
  },
  migrate: {
    summary: 'move the data of a stopped gateway from SQLite to PostgreSQL',
    usage: 'sluice migrate --to URL [--json] [--data DIR]',
    options: { to: { type: 'string' }, ...DATA },
    help: [
      '--to URL        the postgres://… URL of an empty database; PGPASSWORD may have the password instead',
      JSON_HELP,
      DATA_HELP,
      'Example: sluice migrate --to postgres://sluice@db1/sluice',
      'The ledger is verified before and after, and all rows are compared. Repeating an interrupted move continues',
      'it. Exit 0: moved. Exit 1: the gateway still uses SQLite; the message gives the reason.',
    ],
    positionals: 0,
    run: async (deps, values) => {
      const url = text(values.to)
      return url === undefined
        ? missing(deps, '--to URL', 'migrate')
        : printReport(deps, values, await deps.migrate(url, text(values.data)))
    },
  },
  'node list': {
    summary: 'list the nodes of all gateways that share the database',
    usage: 'sluice node list [--json] [--data DIR]',
    options: DATA,
    help: [
      JSON_HELP,
      DATA_HELP,
      'Example: sluice node list',
      'BEHIND is the number of changes that the node has not applied yet. Exit 0: the nodes were listed.',
    ],
    positionals: 0,
    run: async (deps, values) => {
      const nodes = await deps.operate('listNodes', undefined as never, text(values.data))
      show(deps, values, { json: nodes, lines: nodeLines(nodes, Math.floor(Date.now() / 1000)) })
      return EXIT.ok
    },
  },
  'node drain': {
    summary: 'stop the gateway of a node as SIGTERM does',
    usage: 'sluice node drain ID [--json] [--data DIR]',
    options: DATA,
    help: [
      'ID              the ID of the node, from sluice node list',
      JSON_HELP,
      DATA_HELP,
      'Example: sluice node drain 3f2b8c1e-9a4d',
      'All workers of that gateway stop. Exit 0: the gateway stops with its next heartbeat. Exit 1: there is no such node.',
    ],
    positionals: 1,
    run: async (deps, values, [id]) => {
      if (id === undefined) return missing(deps, 'ID', 'node drain')
      const drained = await deps.operate('drainNode', { id }, text(values.data))
      show(deps, values, { json: drained, lines: [`The gateway of the node ${id} stops.`] })
      return EXIT.ok
    },
  },
  'node retire': {
    summary: 'give up a node whose disk is lost: return its leases, and refuse its records',
    usage: 'sluice node retire ID [--json] [--data DIR]',
    options: DATA,
    help: [
      'ID              the ID of the node, from sluice node list; the node must be fenced',
      JSON_HELP,
      DATA_HELP,
      'Example: sluice node retire 3f2b8c1e-9a4d',
      'If the journal of the node still exists, start the gateway there instead: then nothing is lost. Exit 0: the node is',
      'retired, and what it may have spent is in suspense. Exit 1: there is no such node, or it is not fenced yet.',
    ],
    positionals: 1,
    run: async (deps, values, [id]) => {
      if (id === undefined) return missing(deps, 'ID', 'node retire')
      const retired = await deps.operate('retireNode', { id }, text(values.data))
      show(deps, values, {
        json: retired,
        lines: [
          `The node ${id} is retired. It had leased $${retired.leased} from ${retired.accounts} users, and may have spent that without reporting it.`,
          'The amounts are returned to the users, and listed as unresolved charges.',
        ],
      })
      return EXIT.ok
    },
  },
  doctor: {
    summary: 'check settings, files, machine, database, master secret, providers and proxy',
    usage: 'sluice doctor [--json] [--data DIR]',
    options: DATA,
    help: [
      JSON_HELP,
      DATA_HELP,
      'Run it with the environment of the gateway, which may run or be stopped. It changes nothing, sends no key to a',
      'provider and prints one line for each check: ok, warn or FAIL.',
      'Example: sluice doctor --data /var/lib/sluice',
      'Exit 0: no check failed; there may be warnings. Exit 1: a check failed.',
    ],
    positionals: 0,
    run: async (deps, values) => {
      const findings = await deps.examine(text(values.data))
      const ok = findings.every(({ level }) => level !== 'failure')
      show(deps, values, { json: { ok, findings }, lines: findingLines(findings) })
      return ok ? EXIT.ok : EXIT.failed
    },
  },
  completion: {
    summary: 'print a script that completes commands and options in a shell',
    usage: `sluice completion ${SHELL_NAMES.join('|')} [--json]`,
    options: {},
    help: [
      JSON_HELP,
      'Example: source <(sluice completion bash)',
      'Example: sluice completion fish > ~/.config/fish/completions/sluice.fish',
      'Exit 0: the script was printed. Exit 64: unknown shell.',
    ],
    positionals: 1,
    run: async (deps, values, [shell]) => {
      if (shell === undefined) return missing(deps, 'the name of the shell', 'completion')
      const script = completionScript(shell, completedCommands())
      if (script === undefined) {
        deps.printError(`sluice: unknown shell "${shell}"\n${COMMANDS.completion?.usage}`)
        return EXIT.usage
      }
      show(deps, values, { json: { shell, script }, lines: [script.trimEnd()] })
      return EXIT.ok
    },
  },
  ...canaryCommands,
  ...importCommands,
  version: {
    summary: 'print the version',
    usage: 'sluice version [--json]',
    options: {},
    help: [JSON_HELP, 'Example: sluice version --json', 'Exit 0: always.'],
    positionals: 0,
    run: async (deps, values) => {
      show(deps, values, {
        json: { version: deps.version, node: process.versions.node },
        lines: [deps.version],
      })
      return EXIT.ok
    },
  },
  help: {
    summary: 'print this list, or the help of one command',
    usage: 'sluice help [COMMAND] [--json]',
    options: {},
    help: [
      JSON_HELP,
      'Example: sluice help admin reset-password',
      'Exit 0: printed. Exit 64: unknown command.',
    ],
    positionals: 2,
    run: async (deps, values, words) => {
      const command = commandNamed(words)
      const isGroup = words.length === 1 && !command && groupNamed(words[0]).length > 0
      if (words.length > 0 && !command && !isGroup) return unknown(deps, words.join(' '))
      const listed = completedCommands().filter(({ name }) =>
        isGroup ? name.startsWith(`${words[0]} `) : !command || name === words.join(' '),
      )
      show(deps, values, {
        json: { commands: listed.map(each => ({ ...each, ...helpOf(each.name) })) },
        lines: isGroup
          ? groupNamed(words[0]).map(commandLine)
          : [command ? commandHelp(command, deps) : overview()],
      })
      return EXIT.ok
    },
  },
}

/** The table for shells: names, summaries and options. */
const completedCommands = () =>
  Object.entries(COMMANDS).map(([name, { summary, options }]) => ({
    name,
    summary,
    options: Object.entries<{ readonly type: 'string' | 'boolean' }>({ ...options, ...COMMON_OPTIONS }).map(
      ([option, { type }]) => ({
        name: option,
        takesValue: type === 'string',
      }),
    ),
  }))

const helpOf = (name: string) => ({ usage: COMMANDS[name]?.usage, help: COMMANDS[name]?.help })

/** A whole number from 1; undefined if the text is none, or larger than `max`. */
function numberIn(digits: string, max = Number.MAX_SAFE_INTEGER): number | undefined {
  const number = /^\d{1,16}$/.test(digits) ? Number(digits) : 0
  return number >= 1 && number <= max ? number : undefined
}

function wrong(deps: CliDeps, fault: string, command: string): number {
  deps.printError(`sluice: ${fault}\n${COMMANDS[command]?.usage}`)
  return EXIT.usage
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
    ...Object.entries(COMMANDS).map(commandLine),
    '',
    'Run "sluice COMMAND --help" for details. In a source checkout, run ./sluice instead of sluice.',
    'Exit codes: 0 success, 1 failure, 64 invalid usage, 65 damaged data or ledger, 78 invalid setting.',
  ].join('\n')

/** The commands whose names begin with this word and have a second one. */
const groupNamed = (word: string | undefined) =>
  Object.entries(COMMANDS).filter(([name]) => name.startsWith(`${word} `))

const commandLine = ([name, { summary }]: [string, Command]) => `  sluice ${name.padEnd(22)} ${summary}`

function unknown(deps: CliDeps, words: string): number {
  const [first = ''] = words.split(' ')
  const second = groupNamed(first).map(([name]) => name.slice(first.length + 1))
  const choices = second.length === 0 ? '' : `: after "${first}" comes one of ${second.join(', ')}`
  deps.printError(`sluice: unknown command "${words}"${choices}; run "sluice help" for a list`)
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

export async function runCli(argv: readonly string[], cliDeps: CliDeps): Promise<number> {
  const deps: CliDeps = {
    ...cliDeps,
    print: line => cliDeps.print(printable(line)),
    printError: line => cliDeps.printError(printable(line)),
  }
  if (argv.length === 0 || argv[0] === '--help' || argv[0] === '-h') {
    deps.print(overview())
    return argv.length === 0 ? EXIT.usage : EXIT.ok
  }
  if (argv[0] === '--version' || argv[0] === '-v') return COMMANDS.version?.run(deps, {}, []) ?? EXIT.failed
  const match = find(argv)
  const group = groupNamed(argv[0])
  if (!match && group.length > 0 && (argv[1] === '--help' || argv[1] === '-h')) {
    for (const each of group) deps.print(commandLine(each))
    return EXIT.ok
  }
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
}: CommandMatch): { values: OptionValues; positionals: string[] } | { fault: string } {
  try {
    const { values, positionals } = parseArgs({
      args: rest,
      options: { ...command.options, ...COMMON_OPTIONS },
      allowPositionals: true,
    })
    const surplus = positionals[command.positionals]
    if (surplus !== undefined && !values.help) return { fault: `unexpected argument "${surplus}"` }
    return { values: values as OptionValues, positionals }
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    // Node.js goes on with advice about positional arguments, which misleads after a typing error.
    return { fault: code === 'ERR_PARSE_ARGS_UNKNOWN_OPTION' ? (message.split('. ')[0] ?? message) : message }
  }
}
