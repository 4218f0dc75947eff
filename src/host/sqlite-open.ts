import { DatabaseSync } from 'node:sqlite'

export type { SQLInputValue, StatementSync } from 'node:sqlite'

/** The one place that knows `node:sqlite`'s class by name. */
export const openDatabase = (path: string, options: { readOnly: boolean; timeoutMs: number }) =>
  new DatabaseSync(path, { readOnly: options.readOnly, timeout: options.timeoutMs })
