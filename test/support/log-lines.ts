import { createLog } from '../../src/app/log.ts'
import { logLines } from './process.ts'

/** The log of a gateway in this process, kept in memory. */
export function collectLog(level: string) {
  let text = ''
  const write = (line: string) => {
    text += line
  }
  return { log: createLog(level, 'json', { write }), lines: () => logLines(text) }
}

export type LogLines = ReturnType<typeof collectLog>
