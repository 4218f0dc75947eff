import { isatty } from 'node:tty'
import pino from 'pino'
import { createLogLines } from './log-lines.ts'

const STDOUT = 1

// Only a terminal needs it, and it takes its time to load.
const pretty = isatty(STDOUT) ? (await import('pino-pretty')).default : undefined

/** Credentials by their shape, wherever they turn up: in a message, an upstream's error, a stack. */
const SECRETS =
  /\b(sk-|sat-|AIza|xai-|gsk_|sluice_session=|(?:[Bb]earer|[Bb]asic)\s+)[A-Za-z0-9._~+/=-]{8,}|([?&](?:key|api_key|token|access_token)=)[^&\s"]+|(postgres(?:ql)?:\/\/[^:\s/]+:)[^\s"]+@/g

/** Long texts are cut before any pattern looks at them, so a hostile one costs nothing. */
const MAX_LINE = 16_384

export const scrub = (line: string) =>
  (line.length > MAX_LINE ? `${line.slice(0, MAX_LINE)}…"}\n` : line).replace(
    SECRETS,
    (_whole, shape?: string, query?: string, url?: string) =>
      `${shape ?? query ?? url ?? ''}[redacted]${url === undefined ? '' : '@'}`,
  )

const tellDropped = (lines: number) =>
  `${JSON.stringify({ level: 'warn', time: new Date().toISOString(), lines, msg: 'lines of the log were dropped: nobody took them' })}\n`

/** JSON lines on stdout, pretty on a terminal. No bodies, no headers; what slips through is scrubbed by shape. */
export function createLog(level: string): pino.Logger {
  return pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: label => ({ level: label }) },
      redact: {
        paths: [
          'password',
          'key',
          'token',
          'authorization',
          'cookie',
          '*.password',
          '*.key',
          '*.token',
          '*.authorization',
          '*.cookie',
        ],
        censor: '[redacted]',
      },
      hooks: { streamWrite: scrub },
    },
    pretty ? pretty({ colorize: true, ignore: 'pid,hostname' }) : createLogLines(STDOUT, tellDropped),
  )
}

/** Lets the last lines out; a reader that does not take them is not waited for. */
export const endLog = (log: pino.Logger) => new Promise<void>(resolve => log.flush(() => resolve()))
