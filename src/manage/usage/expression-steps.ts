import type { Expression } from '../../override/expression.ts'

/** About half a second in the worst case. */
const MAX_STEPS = 1_000_000
/** About 50 ms. */
const MAX_COPIED = 20_000

/** Whether an expression is quick to compile: RE2 copies what a repetition such as `{1,200}` repeats. */
export function isQuickToCompile(source: string): boolean {
  const counts = [...source.matchAll(/\{(\d+)(?:,(\d*))?\}/g)].map(([, least, most]) => Number(most || least))
  const copies = source.includes('){')
    ? counts.reduce((product, count) => product * Math.max(1, count), 1)
    : counts.reduce((sum, count) => sum + count, 1)
  return source.length * copies <= MAX_COPIED
}

/** Whether a search cannot delay other requests: each character may take a step for each instruction of the expression. */
export const isQuickToSearch = (text: string, expression: Expression): boolean =>
  expression.programSize() * text.length <= MAX_STEPS
