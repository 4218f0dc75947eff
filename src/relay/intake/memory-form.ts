import { isUtf8 } from 'node:buffer'
import { Readable } from 'node:stream'
import type { Share } from '../../http/budget.ts'
import { type RelayIncoming, receiveBody } from '../../http/relay-exchange.ts'
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
  readonly bytes: Buffer
  readonly boundary: string
  /** Returns the bytes to the total of all uploads. Their memory is used for another body: nothing may read them any more. */
  release(): void
  /** The same, but the memory stays as it is, for readers that may still use it. */
  forget(): void
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
  let memory: Buffer | undefined
  let reserved = 0
  const forget = () => {
    memory = undefined
    storage.inMemory -= reserved
    reserved = 0
  }
  const release = () => {
    if (memory !== undefined) storage.memory.give(memory)
    forget()
  }
  const memoryFor = (first: Buffer) => {
    const size = declaredLength(request) ?? 0
    if (!beginsPlainly(first, boundary)) return undefined
    if (storage.inMemory + size > ALL_MEMORY_BYTES || !share.take(size)) return undefined
    reserved = size
    storage.inMemory += size
    memory = storage.memory.take(size)
    return memory
  }
  try {
    const bytes = await receiveWhole(request, memoryFor)
    return bytes && { bytes, boundary, release, forget }
  } catch (error) {
    // The socket may still read into the memory.
    forget()
    throw error
  }
}

/** Receives a body if there is memory for it after its first piece. Otherwise returns undefined, and it can still be read completely. */
function receiveWhole(
  request: RelayIncoming,
  memoryFor: (first: Buffer) => Buffer | undefined,
): Promise<Buffer | undefined> {
  const { promise, resolve, reject } = Promise.withResolvers<Buffer | undefined>()
  let memory: Buffer | undefined
  let size = 0
  let isOver = false
  const idle = setTimeout(() => refuse(bodyTooSlow()), BODY_IDLE_MS)
  function finish(): void {
    isOver = true
    clearTimeout(idle)
  }
  function refuse(error: Error): void {
    finish()
    reject(error)
  }
  receiveBody(request, {
    data(piece) {
      if (isOver) return false
      memory ??= memoryFor(piece)
      if (memory === undefined) {
        finish()
        resolve(undefined)
        return false
      }
      idle.refresh()
      const isInPlace = piece.buffer === memory.buffer
      size += isInPlace ? piece.length : piece.copy(memory, size)
      return true
    },
    room: () => (isOver ? undefined : memory?.subarray(size, declaredLength(request))),
    end() {
      finish()
      resolve(memory?.subarray(0, size) ?? EMPTY)
    },
    close: () => refuse(disconnected()),
  })
  return promise
}

const EMPTY = Buffer.alloc(0)
const REPLACEMENT = '\ufffd'

/** The value of a field; undefined: the general parser decides. */
function fieldValue({ content }: MultipartPart): string | undefined {
  const bytes = joined(content)
  if (bytes.length > MAX_FIELD_BYTES || !isUtf8(bytes)) return undefined
  const value = bytes.toString()
  return value.includes(REPLACEMENT) ? undefined : value
}

/** `content` returns views of the body, and nothing after the form is disposed of: then another body may be in their memory. */
function fileOf(
  field: string,
  { name, type }: NonNullable<MultipartPart['file']>,
  content: () => readonly Buffer[] | undefined,
): FormFile {
  const present = () => {
    const views = content()
    if (views === undefined) throw new Error('the file was read after its request')
    return views
  }
  return {
    field,
    name,
    type,
    size: present().reduce((sum, { length }) => sum + length, 0),
    open: () => Readable.from([...present()], { objectMode: false }),
    read: async (offset, length) => rangeOf(present(), offset, length),
    inMemory: content,
  }
}

/** Whether a file name is within the limit and is not `.` or `..`, of which the general parser would leave nothing. */
const isPlainName = (name: string) => name.length <= MAX_FILE_NAME && name !== '.' && name !== '..'

/**
 * The form in a body as most clients write it, within the limits. Undefined: the general parser must read the body, or report what is wrong
 * with it. The general parser takes a third of the CPU time of an upload.
 */
export function formInMemory({ bytes, boundary, release }: BodyInMemory): Form | undefined {
  const parts = partsOf([bytes], boundary, MAX_FIELDS + MAX_FILES)
  if (parts === undefined) return undefined
  const fields: (readonly [string, string])[] = []
  const files: FormFile[] = []
  let isDisposed = false
  for (const part of parts) {
    if (part.name.length > MAX_NAME_BYTES) return undefined
    if (part.file === undefined) {
      const value = fieldValue(part)
      if (value === undefined || fields.length === MAX_FIELDS) return undefined
      fields.push([part.name, value])
    } else {
      if (!isPlainName(part.file.name) || files.length === MAX_FILES) return undefined
      files.push(fileOf(part.name, part.file, () => (isDisposed ? undefined : part.content)))
    }
  }
  const dispose = () => {
    isDisposed = true
    release()
  }
  return { fields, files, dispose }
}
