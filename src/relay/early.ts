import type { ServerResponse } from 'node:http'
import { rateHeaders } from './admit.ts'
import { commonHeaders } from './answer.ts'

import { KEEP_ALIVE } from './deliver.ts'
import type { Errand } from './errand.ts'

const EVERY_MS = 15_000

/** A streamed answer's head may have to go out before anybody answered, so that clients do not give up waiting. */
export type Early = {
  /** The 200 is out: a failure from here on is an event of the stream. */
  isOpen(): boolean
  /** No more keep-alives: an answer begins, or there will be none. */
  close(): void
}

export const streamHeaders = (requestId: string): Record<string, string> => ({
  ...commonHeaders(requestId),
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-cache',
  'x-accel-buffering': 'no',
})

/** After `afterMs` without an answer the head and a first keep-alive go out together, then one every 15 s; 0: never. */
export function openEarly(
  { work, response, requestId, admitted }: Pick<Errand, 'work' | 'response' | 'requestId' | 'admitted'>,
  afterMs: number,
): Early {
  let isOpen = false
  let every: NodeJS.Timeout | undefined
  const first =
    work.isStream && afterMs > 0
      ? setTimeout(() => {
          isOpen = true
          open(response)
          every = setInterval(() => response.write(KEEP_ALIVE), EVERY_MS)
        }, afterMs)
      : undefined

  function open(to: ServerResponse): void {
    to.writeHead(200, { ...streamHeaders(requestId), ...rateHeaders(admitted.remaining()) })
    to.write(KEEP_ALIVE)
  }

  return {
    isOpen: () => isOpen,
    close(): void {
      clearTimeout(first)
      clearInterval(every)
    },
  }
}
