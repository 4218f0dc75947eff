import type { IncomingHttpHeaders } from 'node:http'
import { BUDGET_SHORTAGES, type Shortage, shortageOf } from '../../domain/shortage.ts'
import type { AddressGuard } from '../../http/address-guard.ts'
import { RefusedAddressError } from '../../http/address-guard.ts'
import type { Budget } from '../../http/budget.ts'
import type { AddressAuthor } from '../../http/upstream-address.ts'
import { type Client, type ClientExchange, createClient } from '../../http1/client/client.ts'
import { createDeadlines } from '../../http1/client/deadlines.ts'
import { Http1Error } from '../../http1/client/errors.ts'
import { KeyRefused } from '../../providers/key-refused.ts'
import { createGatherer } from '../../wire/gather.ts'
import type { Upload } from '../../wire/multipart.ts'
import { createPrelude } from './prelude.ts'

export type Timeouts = {
  readonly connectMs: number
  readonly firstByteMs: number
  readonly idleMs: number
  /** 0: no limit. */
  readonly totalMs: number
}

export type UpstreamRequest = {
  /** Absent: POST. */
  readonly method?: 'GET' | 'POST' | 'DELETE'
  readonly url: URL
  readonly headers: Readonly<Record<string, string>>
  /** Absent only for methods without a body. */
  readonly body?: Buffer | Upload
  readonly timeouts: Timeouts
  /** A streamed answer is handed over with its first event; any other answer is buffered first. */
  readonly isStream: boolean
  /** A JSON answer to a stream request is accepted and buffered. */
  readonly acceptsNonStream?: boolean
  /** Whether an answer of this content type is a file that is handed over from its first byte on. */
  passes?(contentType: string): boolean
  /** Signs the final request, if the key itself must not be sent. */
  sign?(request: SignableRequest): Promise<Readonly<Record<string, string>>>
  /** The maximum size of a buffered answer; absent: 32 MiB. */
  readonly maxAnswerBytes?: number
  /** The author of the address; absent: an administrator. */
  readonly author?: AddressAuthor
}

/** The final request, about to be sent. */
type SignableRequest = {
  readonly method: 'GET' | 'POST' | 'DELETE'
  readonly url: URL
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
}

/** A failure of the connection or of the bytes on it. An HTTP status is never a failure here. */
export type ConnectionFailure = {
  readonly kind: 'failure'
  /**
   * `key`: the provider rejects the key, so nothing was sent. `local`: this machine has run out of a resource; the
   * provider is not at fault.
   */
  readonly reason: 'connect' | 'timeout' | 'cut' | 'invalid' | 'key' | 'local'
  readonly message: string
  /** False: there was no connection, so the provider did no work. */
  readonly wasSent: boolean
  /** The resource that this machine has run out of. */
  readonly shortage?: Shortage
}
export type BufferedResponse = {
  readonly kind: 'buffered'
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
export type UpstreamOutcome = ConnectionFailure | BufferedResponse | StreamedResponse

type Receiver = {
  data(chunk: Buffer): void
  end(): void
  fail(failure: ConnectionFailure): void
}

/** The body of a streamed answer. The listener first gets the bytes that were buffered before it. */
export type Flow = {
  /** The buffered bytes, including the data of the first event; empty if the stream has no server-sent events. */
  peek(): Buffer
  listen(receiver: Receiver): void
  pause(): void
  resume(): void
}

export type UpstreamExchange = { readonly outcome: Promise<UpstreamOutcome>; abort(): void }

export const MAX_BUFFERED_BYTES = 32 * 1024 * 1024
const MAX_ERROR_BYTES = 64 * 1024
const MAX_PRELUDE_BYTES = 64 * 1024

const CONNECT_ERRORS = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  // The error of an IPv6 address on a machine without IPv6; otherwise it is a shortage.
  'EADDRNOTAVAIL',
  'ETIMEDOUT',
  'CERT_HAS_EXPIRED',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'ERR_TLS_CERT_ALTNAME_INVALID',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'EPROTO',
  'REFUSED_ADDRESS',
])
const TIMEOUT_ERRORS = new Set(['CONNECT_TIMEOUT', 'IDLE_TIMEOUT', 'ETIMEDOUT'])
const INVALID_ERRORS = new Set(['MALFORMED_RESPONSE', 'MALFORMED_REQUEST'])

const KEEP_ALIVE_MS = 30_000
/** Self-hosted servers often close idle connections after five seconds without notice. Reconnecting to them is cheap. */
const PLAIN_KEEP_ALIVE_MS = 4_000

/** Streams other than server-sent events: they start with their first byte. */
const FRAMED = /^application\/(x-ndjson|vnd\.amazon\.eventstream)\b/i

const EMPTY = Buffer.alloc(0)
const DESCRIPTORS = shortageOf({ code: 'EMFILE' })

function failureOf(error: Error & { code?: string }, wasSent: boolean): ConnectionFailure {
  const code = error.code ?? ''
  const reason = TIMEOUT_ERRORS.has(code)
    ? 'timeout'
    : CONNECT_ERRORS.has(code)
      ? 'connect'
      : INVALID_ERRORS.has(code)
        ? 'invalid'
        : 'cut'
  // The reason why the gateway refused an address is more useful than the code. Only administrators see it.
  const isOwn = error instanceof RefusedAddressError || error instanceof Http1Error
  return { kind: 'failure', reason, message: isOwn ? error.message : code || error.name, wasSent }
}

const sendable = (body: UpstreamRequest['body']) =>
  body === undefined || Buffer.isBuffer(body) ? body : (body.inMemory?.() ?? body)

type UpstreamOptions = {
  readonly resolver: AddressGuard['resolver']
  /**
   * Connections per origin. As many as clients may have: an answer occupies its connection while it runs, and a request
   * that waited for one would look like a slow provider.
   */
  readonly connections: number
  /** The memory budget of all bodies in this process; buffered answers count against it while they are received. */
  readonly memory: Budget
  /** Whether this process can open another file or socket. */
  hasDescriptors(): boolean
  onShortage(shortage: Shortage): void
}

/** Exchanges requests with providers over persistent connections. Redirects are not followed. */
export function createUpstream(options: UpstreamOptions) {
  const { memory, hasDescriptors, onShortage } = options
  const deadlines = createDeadlines()
  const clientFor = (author: AddressAuthor) =>
    createClient({
      resolver: options.resolver(author),
      deadlines,
      maxConnections: options.connections,
      keepAliveMs: origin => (origin.startsWith('https:') ? KEEP_ALIVE_MS : PLAIN_KEEP_ALIVE_MS),
    })
  /** Addresses that a provider names must not reuse a connection to an administrator's address. */
  const clients: Readonly<Record<AddressAuthor, Client>> = {
    administrator: clientFor('administrator'),
    provider: clientFor('provider'),
  }
  const urlParts = new WeakMap<URL, { readonly origin: string; readonly path: string }>()

  /** Cached, because the same URLs are used repeatedly and a URL serializes its parts on each access. */
  function partsOf(url: URL) {
    const cached = urlParts.get(url)
    if (cached) return cached
    const parts = { origin: url.origin, path: `${url.pathname}${url.search}` }
    urlParts.set(url, parts)
    return parts
  }

  function exchange(request: UpstreamRequest): UpstreamExchange {
    const { method = 'POST', url, headers, body, timeouts, maxAnswerBytes = MAX_BUFFERED_BYTES } = request
    let isStream = request.isStream
    const { promise, resolve } = Promise.withResolvers<UpstreamOutcome>()
    let running: ClientExchange | undefined
    let wasSent = false
    let receiver: Receiver | undefined
    let isOver = false
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
      else resolveBuffered()
    }

    /** Synchronous, except for a large answer: its chunks are joined in slices. */
    function resolveBuffered(): void {
      const body = gathered.whole()
      const answer = (bytes: Buffer): BufferedResponse => ({
        kind: 'buffered',
        status,
        headers: answerHeaders,
        body: bytes,
      })
      if (body instanceof Promise) resolve(body.then(answer))
      else resolve(answer(body))
    }

    function failLocally(shortage: Shortage): void {
      onShortage(shortage)
      finish({ kind: 'failure', reason: 'local', message: shortage.code, wasSent, shortage })
      running?.abort()
    }

    /** A shortage on this machine is not reported as a failure of the provider. */
    function failed(error: Error & { code?: string }): void {
      const failure = failureOf(error, wasSent)
      const shortage = shortageOf(error) ?? (isOutOfDescriptors(failure) ? DESCRIPTORS : undefined)
      if (shortage) failLocally(shortage)
      else finish(failure)
    }

    /** Without a free file descriptor, DNS lookups fail as if the name did not exist. */
    const isOutOfDescriptors = ({ reason }: ConnectionFailure) => reason === 'connect' && !hasDescriptors()

    function stop(reason: ConnectionFailure['reason'], message: string): void {
      finish({ kind: 'failure', reason, message, wasSent })
      running?.abort()
    }

    const flow: Flow = {
      peek: () => (isPassing || isFramed ? EMPTY : bufferedBytes()),
      listen(next) {
        receiver = next
        for (const chunk of gathered.take()) next.data(chunk)
        memory.give(reservedBytes)
        reservedBytes = 0
        if (ended === 'end') next.end()
        else if (ended) next.fail(ended)
      },
      pause: () => running?.pause(),
      resume: () => running?.resume(),
    }

    let isPassing = false
    let isFramed = false
    /** Taken from the memory budget of all bodies. */
    let reservedBytes = 0
    // The prelude is too short to be joined in slices, so this is synchronous.
    const bufferedBytes = () => gathered.whole() as Buffer
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

    function receiveHead(code: number, headers: IncomingHttpHeaders): void {
      status = code
      answerHeaders = headers
      const type = headers['content-type'] ?? ''
      isPassing = request.passes?.(type) ?? false
      isFramed = isStream && FRAMED.test(type)
      if (request.acceptsNonStream && type.includes('json')) isStream = false
      // The deadline of a stream ends with its first event, that of any other answer with its status.
      if (!handsOver()) first.cancel()
    }

    function receiveData(bytes: Buffer): void {
      // The client reads the next bytes into the same memory.
      const chunk = Buffer.from(bytes)
      if (receiver) {
        receiver.data(chunk)
        return
      }
      gathered.push(chunk)
      size += chunk.length
      if (!memory.take(chunk.length)) {
        failLocally(BUDGET_SHORTAGES.memory)
        return
      }
      reservedBytes += chunk.length
      if (handsOver()) {
        if (!isHandedOver) handOver(chunk)
      } else if (status >= 400 && size > MAX_ERROR_BYTES) {
        // The error body is long enough to report; the rest is not received.
        finish('end')
        running?.abort()
      } else if (size > maxAnswerBytes) stop('invalid', `more than ${maxAnswerBytes / 1_048_576} MiB`)
    }

    function dispatch(signedHeaders: Readonly<Record<string, string>>): void {
      const { origin, path } = partsOf(url)
      try {
        running = clients[request.author ?? 'administrator'].exchange(
          {
            origin,
            method,
            path,
            headers: signedHeaders,
            body: sendable(body),
            connectMs: timeouts.connectMs,
            // `first` above is the deadline for the first byte, and also waits for the first event.
            idleMs: timeouts.idleMs,
            // A provider may have processed, and bills, any other request that it received (docs/reference/routing.md: Retries).
            isRepeatable: method === 'GET',
          },
          {
            sent() {
              wasSent = true
            },
            head: receiveHead,
            data: receiveData,
            end: () => finish('end'),
            fail: failed,
          },
        )
      } catch (error) {
        failed(error as Error)
      }
    }

    async function signAndDispatch(sign: NonNullable<UpstreamRequest['sign']>): Promise<void> {
      try {
        const bytes = body ?? Buffer.alloc(0)
        if (!Buffer.isBuffer(bytes)) throw new Error('a request that is sent piece by piece cannot be signed')
        const signature = await sign({ method, url, headers, body: bytes })
        if (!isOver) dispatch({ ...headers, ...signature })
      } catch (error) {
        const reason = error instanceof KeyRefused ? 'key' : 'invalid'
        finish({ kind: 'failure', reason, message: (error as Error).message, wasSent: false })
      }
    }

    if (request.sign) void signAndDispatch(request.sign.bind(request))
    else dispatch(headers)

    return {
      outcome: promise,
      abort(): void {
        if (!isOver) stop('cut', 'aborted')
      },
    }
  }

  return {
    exchange,
    /** The number of origins with open connections, and those that are not removed yet. */
    originCount: () => clients.administrator.originCount() + clients.provider.originCount(),
    connectionCount: () => clients.administrator.connectionCount() + clients.provider.connectionCount(),
    async close(): Promise<void> {
      clients.administrator.close()
      clients.provider.close()
    },
  }
}

export type Upstream = ReturnType<typeof createUpstream>
