import { isUtf8 } from 'node:buffer'
import { Readable } from 'node:stream'
import type { Share } from '../../http/budget.ts'
import { bodyOf, type RelayIncoming } from '../../http/relay-exchange.ts'
import { Gatherer } from '../../wire/gather.ts'
import { beginsPlainly, joined, type MultipartPart, partsOf } from '../../wire/multipart-parts.ts'
import { bodyTooSlow, declaredLength, disconnected } from './body.ts'
import {
  BODY_IDLE_MS,
  type Form,
  type FormFile,
  MAX_FIELD_BYTES,
  MAX_FIELDS,
  MAX_FILE_NAME,
  MAX_FILES,
  MAX_NAME_BYTES,
} from './form-content.ts'
import { ALL_MEMORY_BYTES, type FormStorage, rangeOf } from './form-storage.ts'

/** A complete body in memory. */
export type BodyInMemory = {
  readonly chunks: readonly Buffer[]
  readonly boundary: string
  /** Returns the memory to the total of all uploads. */
  release(): void
}

/** The content type as most clients write it. */
const CONTENT_TYPE = /^multipart\/form-data; ?boundary=("?)([\w'()+,./:=?-]+)\1$/i

/**
 * Receives a body of a declared length whose first part is written as most clients do. Returns undefined for any other body, and if there
 * is no memory for it: nothing of it is lost, and the general parser can read it while it arrives.
 */
export async function receiveInMemory(
  request: RelayIncoming,
  storage: FormStorage,
  share: Share,
): Promise<BodyInMemory | undefined> {
  const [, , boundary] = CONTENT_TYPE.exec(request.headers['content-type'] ?? '') ?? []
  if (boundary === undefined) return undefined
  let reserved = 0
  const release = () => {
    storage.inMemory -= reserved
    reserved = 0
  }
  const accepts = (first: Buffer) => {
    const size = declaredLength(request) ?? 0
    if (!beginsPlainly(first, boundary)) return false
    if (storage.inMemory + size > ALL_MEMORY_BYTES || !share.take(size)) return false
    reserved = size
    storage.inMemory += size
    return true
  }
  try {
    const chunks = await receiveChunks(request, accepts)
    return chunks && { chunks, boundary, release }
  } catch (error) {
    release()
    throw error
  }
}

/** Receives a body if its first chunk is accepted. Otherwise returns undefined, and the body can still be read completely. */
function receiveChunks(
  request: RelayIncoming,
  accepts: (first: Buffer) => boolean,
): Promise<readonly Buffer[] | undefined> {
  const { promise, resolve, reject } = Promise.withResolvers<readonly Buffer[] | undefined>()
  const gathered = new Gatherer()
  const body = bodyOf(request)
  const idle = setTimeout(() => refuse(bodyTooSlow()), BODY_IDLE_MS)
  const onData = (chunk: Buffer) => {
    idle.refresh()
    if (gathered.size() > 0 || accepts(chunk)) gathered.push(chunk)
    else {
      finish()
      body.pause()
      body.unshift(chunk)
      resolve(undefined)
    }
  }
  const onEnd = () => {
    finish()
    resolve(gathered.take())
  }
  const onDisconnect = () => {
    if (!request.complete) refuse(disconnected())
  }
  function finish(): void {
    clearTimeout(idle)
    body.off('data', onData).off('end', onEnd).off('error', onDisconnect).off('close', onDisconnect)
  }
  function refuse(error: Error): void {
    finish()
    body.pause()
    reject(error)
  }
  body.on('data', onData).on('end', onEnd).on('error', onDisconnect).on('close', onDisconnect)
  return promise
}

const REPLACEMENT = '\ufffd'

/** The value of a field; undefined: the general parser decides. */
function fieldValue({ content }: MultipartPart): string | undefined {
  const bytes = joined(content)
  if (bytes.length > MAX_FIELD_BYTES || !isUtf8(bytes)) return undefined
  const value = bytes.toString()
  return value.includes(REPLACEMENT) ? undefined : value
}

function fileOf(
  field: string,
  { name, type }: NonNullable<MultipartPart['file']>,
  content: readonly Buffer[],
): FormFile {
  return {
    field,
    name,
    type,
    size: content.reduce((sum, { length }) => sum + length, 0),
    open: () => Readable.from([...content], { objectMode: false }),
    read: async (offset, length) => rangeOf(content, offset, length),
    inMemory: () => content,
  }
}

/** Whether a file name is within the limit and is not `.` or `..`, of which the general parser would leave nothing. */
const isPlainName = (name: string) => name.length <= MAX_FILE_NAME && name !== '.' && name !== '..'

/**
 * The form in a body as most clients write it, within the limits. Undefined: the general parser must read the body, or report what is wrong
 * with it. The general parser takes a third of the CPU time of an upload.
 */
export function formInMemory({ chunks, boundary, release }: BodyInMemory): Form | undefined {
  const parts = partsOf(chunks, boundary, MAX_FIELDS + MAX_FILES)
  if (parts === undefined) return undefined
  const fields: (readonly [string, string])[] = []
  const files: FormFile[] = []
  for (const part of parts) {
    if (part.name.length > MAX_NAME_BYTES) return undefined
    if (part.file === undefined) {
      const value = fieldValue(part)
      if (value === undefined || fields.length === MAX_FIELDS) return undefined
      fields.push([part.name, value])
    } else {
      if (!isPlainName(part.file.name) || files.length === MAX_FILES) return undefined
      files.push(fileOf(part.name, part.file, part.content))
    }
  }
  return { fields, files, dispose: release }
}
