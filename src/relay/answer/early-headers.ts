import type { RelayOutgoing } from '../../http/relay-exchange.ts'
import { rateHeaders } from '../callers/admit.ts'
import type { RelayRequest } from '../request.ts'
import { commonHeaders } from './answer.ts'
import { EVENTS_TYPE } from './content-type.ts'
import { COMMON_ERROR_FORMAT, type ErrorFormat } from './error-format.ts'

const EVERY_MS = 15_000

/** Sends the headers of a stream before a channel answers, so that clients do not time out. */
export type EarlyHeaders = {
  /** The 200 is sent: from now on a failure is an event of the stream. */
  isOpen(): boolean
  /** Stops the keep-alives: the answer starts, or there is none. */
  close(): void
}

const NO_EARLY_HEADERS: EarlyHeaders = { isOpen: () => false, close() {} }

export const streamHeaders = (requestId: string, errorFormat?: ErrorFormat): Record<string, string> => ({
  ...commonHeaders(requestId, errorFormat),
  'content-type': errorFormat?.streamType ?? EVENTS_TYPE,
  'cache-control': 'no-cache',
  'x-accel-buffering': 'no',
})

type Waiting = Pick<RelayRequest, 'spec' | 'work' | 'response' | 'requestId' | 'admitted'>

/** After `afterMs` without an answer, sends the headers with a first keep-alive, then one every 15 s. 0: never. */
export function openEarlyHeaders(
  { spec, work, response, requestId, admitted }: Waiting,
  afterMs: number,
): EarlyHeaders {
  if (!work.isStream || afterMs <= 0) return NO_EARLY_HEADERS
  const { errorFormat = COMMON_ERROR_FORMAT } = spec
  const { keepAlive } = errorFormat
  let isOpen = false
  let every: NodeJS.Timeout | undefined
  const first = setTimeout(() => {
    isOpen = true
    open(response)
    if (keepAlive !== undefined) every = setInterval(() => response.write(keepAlive), EVERY_MS)
  }, afterMs)

  function open(to: RelayOutgoing): void {
    to.writeHead(200, { ...streamHeaders(requestId, errorFormat), ...rateHeaders(admitted.remaining()) })
    if (keepAlive === undefined) to.flushHeaders()
    else to.write(keepAlive)
  }

  return {
    isOpen: () => isOpen,
    close(): void {
      clearTimeout(first)
      clearInterval(every)
    },
  }
}
