/** How a test tells a server where to end; apart from what makes it so, which is for the server's process alone. */
export const KILL_HEADER = 'x-kill-at'
export const KILL_VARIABLE = 'SLUICE_TEST_KILL_AT'

/** Settings of a server that ends itself at named points. */
export const killable = (at?: string): Readonly<Record<string, string>> => ({
  NODE_OPTIONS: `--import=${new URL('./kill-points.ts', import.meta.url).href}`,
  ...(at === undefined ? {} : { [KILL_VARIABLE]: at }),
})
