import type { IncomingHttpHeaders } from 'node:http'
import type { Dispatcher } from 'undici'
import { BUDGET_SHORTAGES, type Shortage, shortageOf } from '../../domain/shortage.ts'
import { RefusedAddressError } from '../../http/address-guard.ts'
import type { Budget } from '../../http/budget.ts'
import type { AddressAuthor } from '../../http/upstream-address.ts'
import { KeyRefused } from '../../providers/key-refused.ts'
import { createGatherer } from '../../wire/gather.ts'
import type { Upload } from '../../wire/multipart.ts'
import { createDeadlines } from './deadlines.ts'
import { createPools, type PoolsOptions } from './pools.ts'
import { createPrelude } from './prelude.ts'

export type Timeouts = {
  readonly connectMs: number
  readonly firstByteMs: number
  readonly idleMs: number
  /** 0: none. */
  readonly totalMs: number
}

export type UpstreamRequest = {
  /** Absent: POST. */
  readonly method?: 'GET' | 'POST' | 'DELETE'
  readonly url: URL
  readonly headers: Readonly<Record<string, string>>
  /** Absent only where the method has none. */
  readonly body?: Buffer | Upload
  readonly timeouts: Timeouts
  /** A streamed answer is handed over with its first event; any other is received whole first. */
  readonly isStream: boolean
  /** A document in place of the stream is received whole. */
  readonly isWholeTaken?: boolean
  /** Whether an answer of this type is bytes that are handed over as they come, from the first one on. */
  passes?(contentType: string): boolean
  /** Proves the request as it leaves, where the key itself must not travel. */
  sign?(request: Leaving): Promise<Readonly<Record<string, string>>>
  /** The longest answer that is received whole; absent: 32 MiB. */
  readonly maxAnswerBytes?: number
  /** Who chose the address; absent: an administrator. */
  readonly author?: AddressAuthor
}

/** A request that is about to be sent. */
type Leaving = {
  readonly method: 'GET' | 'POST' | 'DELETE'
  readonly url: URL
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
}

/** What went wrong with the connection or the bytes on it; a status is never a failure here. */
export type ConnectionFailure = {
  readonly kind: 'failure'
  /**
   * `key`: the provider does not accept the key, so that nothing could be sent. `local`: this machine has run out of something, and the
   * provider is not at fault.
   */
  readonly reason: 'connect' | 'timeout' | 'cut' | 'invalid' | 'key' | 'local'
  readonly message: string
  /** False where no connection was had, so that the provider cannot have done the work. */
  readonly wasSent: boolean
  /** What the machine has run out of. */
  readonly shortage?: Shortage
}
export type WholeResponse = {
  readonly kind: 'whole'
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly body: Buffer
}
export type StreamedResponse = {
  readonly kind: 'stream'
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly flow: Flow
}
export type UpstreamOutcome = ConnectionFailure | WholeResponse | StreamedResponse

type Receiver = {
  data(chunk: Buffer): void
  end(): void
  fail(failure: ConnectionFailure): void
}

/** A running answer. The listener first gets the bytes that came before it listened. */
export type Flow = {
  /** The bytes before the first listener, with the data of the first event; empty where the stream has no events. */
  begun(): Buffer
  listen(receiver: Receiver): void
  pause(): void
  resume(): void
}

export type UpstreamExchange = { readonly outcome: Promise<UpstreamOutcome>; abort(): void }

export const MAX_WHOLE_BYTES = 32 * 1024 * 1024
const MAX_ERROR_BYTES = 64 * 1024
const MAX_PRELUDE_BYTES = 64 * 1024

const CONNECT_ERRORS = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  // Of an IPv6 address on a machine without IPv6; everywhere else it is a shortage.
  'EADDRNOTAVAIL',
  'UND_ERR_CONNECT_TIMEOUT',
  'ETIMEDOUT',
  'CERT_HAS_EXPIRED',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'ERR_TLS_CERT_ALTNAME_INVALID',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'EPROTO',
  'REFUSED_ADDRESS',
])
const TIMEOUT_ERRORS = new Set([
  'UND_ERR_HEADERS_TIMEOUT',
  'UND_ERR_BODY_TIMEOUT',
  'UND_ERR_CONNECT_TIMEOUT',
  'ETIMEDOUT',
])

/** Streams that are not server-sent events: they begin with their first byte. */
const FRAMED = /^application\/(x-ndjson|vnd\.amazon\.eventstream)\b/i

const NOTHING = Buffer.alloc(0)
const DESCRIPTORS = shortageOf({ code: 'EMFILE' })

function failureOf(error: Error & { code?: string }, wasSent: boolean): ConnectionFailure {
  const code = error.code ?? ''
  const reason = TIMEOUT_ERRORS.has(code)
    ? 'timeout'
    : CONNECT_ERRORS.has(code)
      ? 'connect'
      : /HTTPParser|UND_ERR_RES|HPE_/.test(`${error.name}${code}`)
        ? 'invalid'
        : 'cut'
  // Why the gateway itself refused an address is worth more than the code; only administrators see it.
  const message = error instanceof RefusedAddressError ? error.message : code || error.name
  return { kind: 'failure', reason, message, wasSent }
}

/** Pieces may stand in an array, of which the library's types know nothing. */
const sendable = (body: UpstreamRequest['body']) =>
  body === undefined || Buffer.isBuffer(body)
    ? (body ?? null)
    : ((body.inMemory?.() as Buffer | undefined) ?? body.open())

type UpstreamOptions = PoolsOptions & {
  /** The memory that all bodies of this process may take: whole answers take of it while they come in. */
  readonly memory: Budget
  /** Whether this process can open one more file or socket. */
  hasDescriptors(): boolean
  onShortage(shortage: Shortage): void
}

/** Exchanges with providers over pooled connections; redirects are not followed. */
export function createUpstream({ memory, hasDescriptors, onShortage, ...options }: UpstreamOptions) {
  const pools = createPools(options)
  const deadlines = createDeadlines()
  const places = new WeakMap<URL, { readonly origin: string; readonly path: string }>()

  /** An address is asked again and again, and each part of a URL is put together anew when it is read. */
  function placeOf(url: URL) {
    const cached = places.get(url)
    if (cached) return cached
    const place = { origin: url.origin, path: `${url.pathname}${url.search}` }
    places.set(url, place)
    return place
  }

  function exchange(ask: UpstreamRequest): UpstreamExchange {
    const { method = 'POST', url, headers, body, timeouts, maxAnswerBytes = MAX_WHOLE_BYTES } = ask
    let isStream = ask.isStream
    const { promise, resolve } = Promise.withResolvers<UpstreamOutcome>()
    let controller: Dispatcher.DispatchController | undefined
    let receiver: Receiver | undefined
    let isOver = false
    let isAborted = false
    let status = 0
    let answerHeaders: IncomingHttpHeaders = {}
    const gathered = createGatherer()
    let size = 0
    let ended: ConnectionFailure | 'end' | undefined

    const first = deadlines.after(timeouts.firstByteMs, () => stop('timeout', 'first byte'))
    const total =
      timeouts.totalMs > 0 ? deadlines.after(timeouts.totalMs, () => stop('timeout', 'total')) : undefined

    function finish(ending: ConnectionFailure | 'end'): void {
      if (isOver) return
      isOver = true
      first.cancel()
      total?.cancel()
      ended = ending
      memory.give(reservedBytes)
      reservedBytes = 0
      if (receiver) {
        if (ending === 'end') receiver.end()
        else receiver.fail(ending)
      } else if (ending !== 'end') resolve(ending)
      else resolveWhole()
    }

    /** At once, but for a large answer: its pieces are put together in slices. */
    function resolveWhole(): void {
      const body = gathered.whole()
      const answer = (bytes: Buffer): WholeResponse => ({
        kind: 'whole',
        status,
        headers: answerHeaders,
        body: bytes,
      })
      if (body instanceof Promise) resolve(body.then(answer))
      else resolve(answer(body))
    }

    function runShort(shortage: Shortage): void {
      onShortage(shortage)
      const wasSent = controller !== undefined
      finish({ kind: 'failure', reason: 'local', message: shortage.code, wasSent, shortage })
      controller?.abort(new Error(shortage.code))
    }

    /** No provider is blamed for what this machine has run out of. */
    function failed(error: Error & { code?: string }): void {
      const failure = failureOf(error, controller !== undefined)
      const shortage = shortageOf(error) ?? (isNameless(failure) ? DESCRIPTORS : undefined)
      if (shortage) runShort(shortage)
      else finish(failure)
    }

    /** Without a free descriptor no name can be looked up, and the system says that there is no such name. */
    const isNameless = ({ reason }: ConnectionFailure) => reason === 'connect' && !hasDescriptors()

    function stop(reason: ConnectionFailure['reason'], message: string): void {
      finish({ kind: 'failure', reason, message, wasSent: controller !== undefined })
      controller?.abort(new Error(message))
    }

    const flow: Flow = {
      begun: () => (isPassing || isFramed ? NOTHING : begunBytes()),
      listen(next) {
        receiver = next
        for (const chunk of gathered.take()) next.data(chunk)
        memory.give(reservedBytes)
        reservedBytes = 0
        if (ended === 'end') next.end()
        else if (ended) next.fail(ended)
      },
      pause: () => controller?.pause(),
      resume: () => controller?.resume(),
    }

    let isPassing = false
    let isFramed = false
    /** Of the memory of all bodies. */
    let reservedBytes = 0
    // Less than an answer that is put together in slices.
    const begunBytes = () => gathered.whole() as Buffer
    const prelude = createPrelude()
    const handsOver = () => (isStream || isPassing) && status >= 200 && status < 300
    let isHandedOver = false

    /** Until the first event, the request may be retried on another channel (docs/reference/relay-api.md: Streams). */
    function handOver(chunk: Buffer): void {
      const isFull = size > MAX_PRELUDE_BYTES
      if (!isPassing && !isFramed && !prelude.begins(chunk, isFull)) {
        if (isFull) stop('invalid', 'no event')
        return
      }
      isHandedOver = true
      first.cancel()
      resolve({ kind: 'stream', status, headers: answerHeaders, flow })
    }

    function dispatch(proven: Readonly<Record<string, string>>): void {
      const { origin, path } = placeOf(url)
      pools.poolOf(origin, timeouts.connectMs, ask.author).dispatch(
        {
          method,
          path,
          headers:
            body === undefined || Buffer.isBuffer(body)
              ? proven
              : { ...proven, 'content-length': String(body.length) },
          body: sendable(body),
          // The first byte has its own deadline above, which also waits for the first event.
          headersTimeout: 0,
          bodyTimeout: timeouts.idleMs,
        },
        {
          onRequestStart(started) {
            controller = started
            if (isAborted || isOver) started.abort(new Error('aborted'))
          },
          onResponseStart(started, code, rawHeaders) {
            if (code < 200) return
            // As they came, they keep the 64 KiB that they came in for as long as the stream runs.
            started.rawHeaders = null
            status = code
            answerHeaders = rawHeaders
            const type = String(rawHeaders['content-type'] ?? '')
            isPassing = ask.passes?.(type) ?? false
            isFramed = isStream && FRAMED.test(type)
            if (ask.isWholeTaken && type.includes('json')) isStream = false
            // A streamed answer has begun with its first event, a whole one with its status.
            if (!handsOver()) first.cancel()
          },
          onResponseData(_controller, chunk) {
            if (isOver) return
            if (receiver) return receiver.data(chunk)
            gathered.push(chunk)
            size += chunk.length
            if (!memory.take(chunk.length)) {
              runShort(BUDGET_SHORTAGES.memory)
              return
            }
            reservedBytes += chunk.length
            if (handsOver()) {
              if (!isHandedOver) handOver(chunk)
            } else if (status >= 400 && size > MAX_ERROR_BYTES) {
              // Enough of an error body to report; the rest is not received.
              finish('end')
              controller?.abort(new Error('enough'))
            } else if (size > maxAnswerBytes) stop('invalid', `more than ${maxAnswerBytes / 1_048_576} MiB`)
          },
          onResponseEnd: () => finish('end'),
          onResponseError: (_controller, error) => failed(error),
        },
      )
    }

    async function signAndDispatch(sign: NonNullable<UpstreamRequest['sign']>): Promise<void> {
      try {
        const bytes = body ?? Buffer.alloc(0)
        if (!Buffer.isBuffer(bytes)) throw new Error('a request that is sent piece by piece cannot be signed')
        const proof = await sign({ method, url, headers, body: bytes })
        if (!isOver) dispatch({ ...headers, ...proof })
      } catch (error) {
        const reason = error instanceof KeyRefused ? 'key' : 'invalid'
        finish({ kind: 'failure', reason, message: (error as Error).message, wasSent: false })
      }
    }

    if (ask.sign) void signAndDispatch(ask.sign.bind(ask))
    else dispatch(headers)

    return {
      outcome: promise,
      abort(): void {
        if (isOver) return
        isAborted = true
        stop('cut', 'aborted')
      },
    }
  }

  return {
    exchange,
    /** How many origins the gateway keeps connections to. */
    poolCount: pools.count,
    close: pools.close,
  }
}

export type Upstream = ReturnType<typeof createUpstream>
