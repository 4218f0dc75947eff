import { createContext, Script } from 'node:vm'

/** What an administrator's expression may take of the event loop for one text, before it is stopped. */
const EXPRESSION_MS = 10
const MAX_EXPRESSION_LENGTH = 500
const MAX_TURNS = 20

/** An expression that took too long over a text. */
export class SlowExpression extends Error {
  constructor() {
    super(`a regular expression took longer than ${EXPRESSION_MS} ms`)
    this.name = 'SlowExpression'
  }
}

export function readExpression(source: unknown): RegExp | undefined {
  if (typeof source !== 'string' || source === '' || source.length > MAX_EXPRESSION_LENGTH) return undefined
  try {
    return new RegExp(source, 'gu')
  } catch {
    // Not an expression: the caller names the field.
    return undefined
  }
}

const REPLACE = new Script('text.replace(expression, to)')
const TEST = new Script('expression.test(text)')

type Scope = { text: string; expression: RegExp; to: string }

/** Made when the first expression is used: a context costs about a millisecond and half a megabyte. */
let scope: Scope | undefined

/** An engine that backtracks can be made to run for years by a few letters, so it is watched. */
function run(script: Script, given: Scope): unknown {
  scope ??= createContext({ ...given }) as Scope
  Object.assign(scope, given)
  const before = process.threadCpuUsage()
  try {
    for (let turn = 1; ; turn++) {
      try {
        return script.runInContext(scope, { timeout: EXPRESSION_MS })
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ERR_SCRIPT_EXECUTION_TIMEOUT') throw error
        // The watch goes by the clock: on a busy machine the expression may not have had its turn yet.
        const { user, system } = process.threadCpuUsage(before)
        if (turn === MAX_TURNS || user + system >= EXPRESSION_MS * 1_000) throw new SlowExpression()
      }
    }
  } finally {
    scope.text = ''
  }
}

/** Replaces every match of an expression that `readExpression` has read. */
export const replaceMatches = (text: string, expression: RegExp, to: string) =>
  run(REPLACE, { text, expression, to }) as string

/** For an expression that keeps no place of its own, as those with the flag g do. */
export const isMatch = (text: string, expression: RegExp) =>
  run(TEST, { text, expression, to: '' }) as boolean
