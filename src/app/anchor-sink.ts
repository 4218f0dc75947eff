import type { Logger } from 'pino'
import { createAnchorFile } from '../ledger/anchor-file.ts'
import type { AnchorSink } from '../ledger/anchors.ts'
import { type Config, SettingError } from './config.ts'

/** Anchors go to a file or to the log, where they are written at every log level. */
export function createAnchorSink({ anchor }: Pick<Config, 'anchor'>, log: Logger): AnchorSink {
  if (anchor !== 'log') {
    try {
      return createAnchorFile(anchor.file)
    } catch (error) {
      throw new SettingError(
        'SLUICE_ANCHOR',
        `must be a file that the gateway can write: ${(error as Error).message}`,
      )
    }
  }
  const lines = log.child({}, { level: 'info' })
  return {
    isFile: false,
    append: sealed => lines.info({ anchor: sealed }, 'anchor'),
    rotateIfFull: () => false,
    last: () => undefined,
  }
}
