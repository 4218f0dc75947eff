import { configOf, describeFailure, runProgram } from '../../src/app/program.ts'
import type { Ended, Env } from './process.ts'

type CommandPlace = {
  readonly env?: Env
  /** The directory of relative paths, if not that of the tests. */
  readonly cwd?: string
}

/** `start` ends with its settings: a gateway in this process would not know when to stop. */
function startNothing(): never {
  throw new Error('The settings are valid: this command starts a gateway, which needs a process.')
}

/**
 * Runs a command as its process would, but in this process: a new process takes 0.3 s of CPU time to load the program. What a command
 * has of its process (streams, exit code, umask) is tested with `run`.
 */
export async function runHere(
  args: readonly string[],
  { env = {}, cwd }: CommandPlace = {},
): Promise<Omit<Ended, 'signal'>> {
  const output = { stdout: '', stderr: '' }
  const printError = (line: string) => {
    output.stderr += `${line}\n`
  }
  const previous = process.cwd()
  if (cwd !== undefined) process.chdir(cwd)
  try {
    const code = await runProgram(args, {
      env,
      start: async options => {
        configOf(options, env)
        return startNothing()
      },
      print: line => {
        output.stdout += `${line}\n`
      },
      printError,
    })
    return { code, ...output }
  } catch (error) {
    const { code, message } = describeFailure(error)
    printError(`sluice: ${message}`)
    return { code, ...output }
  } finally {
    process.chdir(previous)
  }
}
