import type { Logger } from 'pino'
import { usdText } from '../domain/money.ts'
import type { RelayDeps } from '../relay/request.ts'
import { createInfoLines } from './log.ts'
import { statusOf } from './metrics.ts'

/** Clients choose the path and the model: lines that wait for shipping must stay small. */
const MAX_TEXT = 255

/** Writes a line for each request of the relay API, or for a share of them. `ship` gets the same line. */
export function createRequestLog(
  log: Logger,
  shareLogged: () => number,
  ship?: (line: unknown) => void,
): RelayDeps['onRequestEnd'] {
  const writeLine = createInfoLines(log)
  return (report, { method, url = '/' }, response) => {
    const share = shareLogged()
    if (share < 1 && Math.random() >= share) return
    const isLogged = log.isLevelEnabled('info')
    if (!isLogged && ship === undefined) return
    const { requestId, startedMs, caller, work, settled, code } = report
    const usage = settled?.log
    const other = usage?.other
    const line = {
      request_id: requestId,
      method,
      path: url.split('?')[0]?.slice(0, MAX_TEXT),
      status: statusOf(response),
      code: code ?? other?.error_code,
      ms: Date.now() - startedMs,
      first_ms: other?.frt,
      user_id: caller?.userId,
      token_id: caller?.tokenId,
      model: work?.model.slice(0, MAX_TEXT),
      channel_id: settled?.channelId,
      prompt_tokens: usage?.promptTokens,
      completion_tokens: usage?.completionTokens,
      cost: settled && usdText(settled.paid),
    }
    if (isLogged) writeLine(line)
    ship?.({ time: new Date().toISOString(), ...line })
  }
}
