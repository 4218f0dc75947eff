import { type Budget, createShare, type Share } from '../../http/budget.ts'
import type { RelayOutgoing } from '../../http/relay-exchange.ts'
import type { StreamMeter } from '../operations/channel-request.ts'
import type { ConnectionFailure, Flow } from '../upstream/exchange.ts'

/** How a stream ended: complete, cut by the provider, left by the client, or stopped by the gateway. */
export type Delivery =
  | { readonly ending: 'end' }
  | { readonly ending: 'cut'; readonly failure: ConnectionFailure }
  | { readonly ending: 'disconnected' }
  | { readonly ending: 'stopped' }

type Delivering = {
  readonly response: RelayOutgoing
  readonly flow: Flow
  readonly meter: StreamMeter
  /** Sent while the provider is idle; absent: not allowed, as inside a file. */
  readonly keepAlive: string | undefined
  /** The memory budget of all bodies in this process. */
  readonly memory: Budget
  abort(): void
  /** Called with the first bytes that are sent, then at most once a second. False stops the stream. */
  onProgress(): boolean
  nowMs(): number
}

/** A client that reads nothing for this long counts as disconnected. */
const STALL_MS = 60_000
const PROGRESS_MS = 1_000
const KEEP_ALIVE_MS = 15_000
/** Nothing follows the last event. The gateway waits only this long for the provider to end the response. */
const AFTER_LAST_MS = 250

/**
 * After this many bytes of one stream the event loop serves other requests: a provider may send faster than it is read. Bytes that are
 * only forwarded take much less time than events.
 */
const TURN_BYTES = { events: 64 * 1024, file: 256 * 1024 } as const
/** The memory that a stalled client occupies (docs/limits.md). */
const STALLED_BYTES = 384 * 1024

/** Above this size a copy costs more than it saves. */
const SMALL_BYTES = 16_384

/**
 * Writes a small chunk with its HTTP framing as one latin1 string: one plain write instead of four gathered ones.
 * `chunkedEncoding` is off during the write, so that Node.js does not frame it again.
 */
function writeSmall(response: RelayOutgoing, bytes: Buffer): boolean {
  response.chunkedEncoding = false
  try {
    return response.write(`${bytes.length.toString(16)}\r\n${bytes.toString('latin1')}\r\n`, 'latin1')
  } finally {
    response.chunkedEncoding = true
  }
}

/** The loop that owns both sockets of a stream: bytes, backpressure, disconnects, timeouts. */
export function deliver(delivering: Delivering): Promise<Delivery> {
  const { response, flow, meter, keepAlive, memory, abort, onProgress, nowMs } = delivering
  const { promise, resolve } = Promise.withResolvers<Delivery>()
  const mostTurnBytes = meter.keepsNothing ? TURN_BYTES.file : TURN_BYTES.events
  let isOver = false
  let lastProgressMs = 0
  let lastWriteMs = nowMs()
  let stalledSinceMs = 0
  let share: Share | undefined
  let closing: NodeJS.Timeout | undefined
  let turnBytes = 0
  let turn: NodeJS.Immediate | undefined

  function finish(delivery: Delivery): void {
    if (isOver) return
    isOver = true
    clearInterval(watch)
    clearTimeout(closing)
    clearImmediate(turn)
    share?.end()
    response.off('close', onClose).off('drain', onDrain)
    if (delivery.ending !== 'end') abort()
    resolve(delivery)
  }

  const onClose = () => finish({ ending: 'disconnected' })
  const onDrain = () => {
    stalledSinceMs = 0
    share?.end()
    share = undefined
    if (turn === undefined) flow.resume()
  }

  /** Lets other requests run, then resumes. */
  function yieldTurn(): void {
    turnBytes = 0
    flow.pause()
    turn = setImmediate(() => {
      turn = undefined
      if (stalledSinceMs === 0) flow.resume()
    })
  }

  function write(bytes: Buffer): void {
    lastWriteMs = nowMs()
    const isSmall = bytes.length > 0 && bytes.length <= SMALL_BYTES
    // Node.js may still buffer earlier chunks of this turn, which a direct write would overtake.
    const isNext = response.chunkedEncoding && response.writableCorked === 0
    const hasRoom = isSmall && isNext ? writeSmall(response, bytes) : response.write(bytes)
    if (hasRoom || stalledSinceMs !== 0) return
    stalledSinceMs = lastWriteMs
    flow.pause()
    share = createShare(memory)
    // Without memory for its buffer, a stalled client is disconnected.
    if (!share.take(STALLED_BYTES)) response.destroy()
  }

  /** False: the bytes are not a readable stream, such as an endless line or event. */
  function pass(read: () => readonly Buffer[]): boolean {
    try {
      for (const bytes of read()) write(bytes)
      return true
    } catch (error) {
      finish({
        ending: 'cut',
        failure: { kind: 'failure', reason: 'invalid', message: (error as Error).message, wasSent: true },
      })
      return false
    }
  }

  function end(): void {
    if (!isOver && pass(() => meter.end())) finish({ ending: 'end' })
  }

  /** The last event is sent after the settlement, which waits for the end of the answer. */
  function endSoon(): void {
    closing ??= setTimeout(() => {
      end()
      abort()
    }, AFTER_LAST_MS)
  }

  // One timer per stream checks for idle providers and stalled clients.
  const watch = setInterval(() => {
    const now = nowMs()
    if (stalledSinceMs !== 0 && now - stalledSinceMs > STALL_MS) {
      finish({ ending: 'disconnected' })
      response.destroy()
    } else if (keepAlive !== undefined && stalledSinceMs === 0 && now - lastWriteMs >= KEEP_ALIVE_MS) {
      lastWriteMs = now
      response.write(keepAlive)
    }
  }, KEEP_ALIVE_MS / 3)

  response.on('close', onClose).on('drain', onDrain)
  if (response.destroyed) finish({ ending: 'disconnected' })

  flow.listen({
    keepsNothing: meter.keepsNothing && response.copiesWrites,
    data(chunk) {
      if (isOver) return
      if (!pass(() => meter.push(chunk))) return
      turnBytes += chunk.length
      if (turnBytes >= mostTurnBytes && turn === undefined && !isOver) yieldTurn()
      if (meter.reading.isDone || meter.reading.error !== undefined) endSoon()
      const now = nowMs()
      if (now - lastProgressMs < PROGRESS_MS) return
      lastProgressMs = now
      if (!onProgress()) finish({ ending: 'stopped' })
    },
    end,
    fail: failure => finish({ ending: 'cut', failure }),
  })
  return promise
}
