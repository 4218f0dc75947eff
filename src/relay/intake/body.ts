import { Refusal } from '../../domain/errors.ts'
import { BUDGET_SHORTAGES } from '../../domain/shortage.ts'
import { overloaded, type Share } from '../../http/budget.ts'
import { bodyOf, type RelayIncoming } from '../../http/relay-exchange.ts'
import { Gatherer } from '../../wire/gather.ts'
import { encodingOf, inflaterFor } from './content-encoding.ts'

/** The limits of a body. */
export type BodyBounds = {
  readonly maxBytes: number
  /** The memory that the body takes from the budget of all bodies. */
  readonly share: Share
  /** Whether the caller has quota left. */
  isFunded(): Promise<boolean>
}

/** Enough for free models (docs/reference/money.md: Callers without balance). */
export const UNFUNDED_BYTES = 64 * 1024

const BODY_TIMEOUT_MS = 60_000

const tooLarge = (maxBytes: number) =>
  new Refusal('request_too_large', `The body is larger than ${Math.floor(maxBytes / 1_048_576)} MiB.`)

export const unfunded = () =>
  new Refusal(
    'insufficient_quota',
    `The token or its user has no quota left. Without quota a body may have at most ${UNFUNDED_BYTES / 1024} KiB.`,
  )

export const disconnected = () =>
  new Refusal('request_timeout', 'The client disconnected before the request was complete.')

export const bodyTooSlow = () => new Refusal('request_timeout', 'The request body arrived too slowly.')

/** The declared content length; undefined: not declared. */
export const declaredLength = ({ headers }: RelayIncoming): number | undefined =>
  headers['content-length'] === undefined ? undefined : Number(headers['content-length'])

/** All bytes that have arrived. node:http returns them one piece at a time, and null at the end. */
function readAll(request: RelayIncoming): Buffer | null {
  const first = request.read() as Buffer | null
  let piece = first === null ? null : (request.read() as Buffer | null)
  if (piece === null) return first
  const pieces = [first as Buffer]
  for (; piece !== null; piece = request.read()) pieces.push(piece)
  return Buffer.concat(pieces)
}

/** Reads the body, decompressed. Synchronous for a small one that has arrived with the headers. */
export function readBody(request: RelayIncoming, bounds: BodyBounds): Buffer | Promise<Buffer> {
  const encoding = encodingOf(request)
  const declared = declaredLength(request)
  const isSmall = declared !== undefined && declared <= Math.min(UNFUNDED_BYTES, bounds.maxBytes)
  // Without the size as a condition, the caller's quota would have to be checked first.
  const bytes =
    isSmall && encoding === undefined && request.complete && !request.destroyed ? readAll(request) : null
  if (bytes === null) return readIncomplete(request, bounds, { encoding, declared })
  if (!bounds.share.take(bytes.length)) throw overloaded(BUDGET_SHORTAGES.memory)
  return bytes
}

type DeclaredBody = { readonly encoding: string | undefined; readonly declared: number | undefined }

async function readIncomplete(
  request: RelayIncoming,
  bounds: BodyBounds,
  { encoding, declared }: DeclaredBody,
): Promise<Buffer> {
  const create = encoding === undefined ? undefined : inflaterFor(encoding)
  if (declared !== undefined && declared > bounds.maxBytes) throw tooLarge(bounds.maxBytes)
  if (declared !== undefined && declared > UNFUNDED_BYTES && !(await bounds.isFunded())) throw unfunded()
  // A small body arrives with the headers. After this microtask, node:http has parsed the chunk, so the body is complete.
  await undefined
  // The client may have disconnected while its credential was looked up. No further event would report that.
  if (request.destroyed) throw disconnected()
  if (create) return receive(request, await chunkedBounds(bounds, undefined), { encoding, create })
  const bytes = request.complete ? readAll(request) : null
  if (bytes === null) return receive(request, await chunkedBounds(bounds, declared))
  if (bytes.length > bounds.maxBytes) throw tooLarge(bounds.maxBytes)
  if (bytes.length > UNFUNDED_BYTES && declared === undefined && !(await bounds.isFunded())) throw unfunded()
  if (!bounds.share.take(bytes.length)) throw overloaded(BUDGET_SHORTAGES.memory)
  return bytes
}

type ChunkedBounds = Pick<BodyBounds, 'maxBytes' | 'share'> & { tooLarge(): Refusal }

/** The limits of a body that arrives in several chunks, perhaps without a declared length. */
async function chunkedBounds(
  { maxBytes, share, isFunded }: BodyBounds,
  declared: number | undefined,
): Promise<ChunkedBounds> {
  const isFree = declared === undefined && !(await isFunded())
  return isFree
    ? { maxBytes: UNFUNDED_BYTES, share, tooLarge: unfunded }
    : { maxBytes, share, tooLarge: () => tooLarge(maxBytes) }
}

type Compression = { readonly encoding: string | undefined; create(): NodeJS.ReadWriteStream }

function receive(request: RelayIncoming, bounds: ChunkedBounds, compression?: Compression): Promise<Buffer> {
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>()
  const gathered = new Gatherer()
  const inflater = compression?.create()
  const body = bodyOf(request)
  const source: NodeJS.ReadableStream = inflater ? body.pipe(inflater) : body
  const timer = setTimeout(() => refuse(bodyTooSlow()), BODY_TIMEOUT_MS)
  const finish = () => {
    clearTimeout(timer)
    source.off('data', onData).off('end', onEnd)
    body.off('error', onDisconnect).off('close', onDisconnect)
  }
  function refuse(refusal: Refusal): void {
    finish()
    if (inflater) body.unpipe(inflater)
    body.pause()
    reject(refusal)
  }
  const onData = (chunk: Buffer) => {
    gathered.push(chunk)
    if (gathered.size() > bounds.maxBytes) refuse(bounds.tooLarge())
    else if (!bounds.share.take(chunk.length)) refuse(overloaded(BUDGET_SHORTAGES.memory))
  }
  const onEnd = () => {
    finish()
    resolve(gathered.whole())
  }
  const onDisconnect = () => {
    if (!request.complete) refuse(disconnected())
  }
  inflater?.on('error', () =>
    refuse(new Refusal('invalid_json', `The body is not valid ${compression?.encoding}.`)),
  )
  source.on('data', onData).on('end', onEnd)
  body.on('error', onDisconnect).on('close', onDisconnect)
  return promise
}
