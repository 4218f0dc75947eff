/**
 * How a test names the point where a server ends; separate from the code that ends it, which only the server
 * process loads.
 */
export const KILL_HEADER = 'x-kill-at'
export const KILL_VARIABLE = 'SLUICE_TEST_KILL_AT'

/** Settings of a server that ends itself at named points. */
export const killable = (at?: string): Readonly<Record<string, string>> => ({
  NODE_OPTIONS: `--import=${new URL('./kill-points.ts', import.meta.url).href}`,
  ...(at === undefined ? {} : { [KILL_VARIABLE]: at }),
})
