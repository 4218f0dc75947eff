import { runCli, type StartOptions } from '../cli/cli.ts'
import type { Report } from '../cli/command.ts'
import { EXIT } from '../cli/command-line.ts'
import { type CommandOutcome, callControl, socketPath } from '../cli/control.ts'
import type { Operations } from '../cli/operations.ts'
import { version } from '../host/version.ts'
import type { WorkerStartError } from '../workers/supervisor.ts'
import { addressFault } from './address-fault.ts'
import { type Config, readConfig, SettingError, settingsHelp } from './config.ts'

export type ProgramEnv = Readonly<Record<string, string | undefined>>

/** What the program takes from its process. */
export type ProgramDeps = {
  readonly env: ProgramEnv
  start(options: StartOptions): Promise<number>
  print(line: string): void
  printError(line: string): void
}

/** The maximum length of a socket path on every system. */
const MAX_SOCKET_PATH = 103

export function configOf({ port, host, data, json }: Partial<StartOptions>, env: ProgramEnv): Config {
  const overrides = {
    ...(json ? { SLUICE_LOG_FORMAT: 'json' } : {}),
    ...(port === undefined ? {} : { PORT: port }),
    ...(host === undefined ? {} : { HOST: host }),
    ...(data === undefined ? {} : { SLUICE_DATA: data }),
  }
  const config = readConfig({ ...env, ...overrides })
  if (Buffer.byteLength(socketPath(config.dataDir)) > MAX_SOCKET_PATH)
    throw new SettingError(
      'SLUICE_DATA',
      `is too long for the control socket in it (${config.dataDir}); the maximum is ${MAX_SOCKET_PATH} characters`,
    )
  return config
}

/** Runs an operation in this process, because no gateway runs on the data directory. */
async function operateHere(config: Config, name: keyof Operations, input: unknown): Promise<CommandOutcome> {
  const { openStoreAndKeys } = await import('./store-and-keys.ts')
  const { operationsOf } = await import('./operations.ts')
  const storeAndKeys = await openStoreAndKeys(config, { mustExist: true })
  try {
    const { createCommandRunner } = await import('./command-runner.ts')
    return await createCommandRunner(storeAndKeys.store, operationsOf(config, storeAndKeys))(name, input)
  } finally {
    await storeAndKeys.close()
  }
}

function targetOf(env: ProgramEnv, dataDir: string, url: string): Config {
  try {
    return readConfig({ ...env, SLUICE_DATA: dataDir, DATABASE_URL: url })
  } catch (error) {
    if (!(error instanceof SettingError)) throw error
    throw new SettingError(
      '--to',
      error.message.replace(/^DATABASE_URL /, '').replace(/; or leave it.*$/, ''),
    )
  }
}

/** Errors whose message is enough for the operator, and their exit codes. */
const EXIT_CODES: Readonly<Record<string, number>> = {
  SettingError: EXIT.config,
  TlsFilesError: EXIT.config,
  DirectoryInUseError: EXIT.failed,
  NewerStoreError: EXIT.failed,
  JournalDamageError: EXIT.badData,
  // A process manager must not try again: only the operator can move the journal away.
  RetiredNodeError: EXIT.badData,
}

/** Operator errors are one sentence; only internal errors print a stack. */
export function describeFailure(thrown: unknown): { code: number; message: string } {
  const { cause } = thrown as Error
  const error = cause instanceof Error && cause.name === 'SqliteError' ? cause : thrown
  const { name, code, message } = error as NodeJS.ErrnoException
  // The worker has printed the reason itself.
  if (name === 'WorkerStartError') return { code: (error as WorkerStartError).exitCode, message }
  const exitCode = EXIT_CODES[name]
  if (exitCode !== undefined) return { code: exitCode, message }
  if (name === 'SqliteError')
    return { code: EXIT.failed, message: `the database in SLUICE_DATA cannot be used: ${message}` }
  const fault = addressFault(error, { port: 'PORT', host: 'HOST' })
  if (fault) return { code: EXIT.config, message: fault.message }
  if (
    name === 'LockFileError' ||
    code === 'EACCES' ||
    code === 'EPERM' ||
    code === 'EROFS' ||
    code === 'ENOSPC'
  )
    return { code: EXIT.config, message: `SLUICE_DATA cannot be used: ${message}` }
  return { code: EXIT.failed, message: (error as Error).stack ?? String(error) }
}

/**
 * Runs the command in these arguments, and returns the exit code. An error is thrown: `describeFailure` has its message and code.
 * The gateway is imported on demand: help texts and setting errors must not wait for it.
 */
export function runProgram(
  args: readonly string[],
  { env, start, print, printError }: ProgramDeps,
): Promise<number> {
  async function operate<Name extends keyof Operations>(
    name: Name,
    input: Parameters<Operations[Name]>[0],
    data: string | undefined,
  ): Promise<Awaited<ReturnType<Operations[Name]>>> {
    const config = configOf({ data }, env)
    const { result, warning } =
      (await callControl(config.dataDir, name, input ?? {})) ?? (await operateHere(config, name, input))
    if (warning !== undefined) printError(`sluice: ${warning}`)
    return result as Awaited<ReturnType<Operations[Name]>>
  }

  async function restore(file: string, data: string | undefined): Promise<Report> {
    const { dataDir, databaseUrl, keyring } = configOf({ data }, env)
    const { restore: restoreBackup } = await import('../cli/restore.ts')
    return restoreBackup({ file, dataDir, databaseUrl, isSecretSet: keyring !== undefined })
  }

  async function migrate(url: string, data: string | undefined): Promise<Report> {
    const config = configOf({ data }, env)
    const target = targetOf(env, config.dataDir, url)
    const { migrate: migrateStore } = await import('./migrate.ts')
    return migrateStore(config, target, print)
  }

  async function examine(data: string | undefined) {
    const { examineGateway } = await import('./doctor/doctor.ts')
    return examineGateway(data === undefined ? env : { ...env, SLUICE_DATA: data })
  }

  return runCli(args, {
    version,
    settingsHelp,
    start,
    operate,
    restore,
    migrate,
    examine,
    variable: name => env[name],
    configSchema: async () => (await import('../manage/contract/config-file.ts')).configSchema(),
    print,
    printError,
  })
}
