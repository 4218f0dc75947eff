import { stdout } from 'node:process'
import pino from 'pino'

// Only a terminal needs it, and it takes its time to load.
const pretty = stdout.isTTY ? (await import('pino-pretty')).default : undefined

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
    pretty ? pretty({ colorize: true, ignore: 'pid,hostname' }) : pino.destination(1),
  )
}
