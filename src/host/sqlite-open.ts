import { DatabaseSync } from 'node:sqlite'

export type { SQLInputValue, StatementSync } from 'node:sqlite'

/** The only place that imports the class of `node:sqlite`. */
export const openDatabase = (path: string, options: { readOnly: boolean; timeoutMs: number }) =>
  new DatabaseSync(path, { readOnly: options.readOnly, timeout: options.timeoutMs })
