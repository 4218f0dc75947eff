import { constants, mkdirSync, readdirSync, rmSync } from 'node:fs'
import { type FileHandle, open, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { Busboy, type BusboyFileStream } from '@fastify/busboy'
import { Refusal } from '../../domain/errors.ts'
import { BUDGET_SHORTAGES } from '../../domain/shortage.ts'
import { codePoints, hasControl } from '../../domain/text.ts'
import { type Budget, overloaded, type Share } from '../../http/budget.ts'
import { bodyOf, type RelayIncoming } from '../../http/relay-exchange.ts'
import type { StoredFile } from '../../wire/multipart.ts'
import { type BodyBounds, declaredLength, disconnected, UNFUNDED_BYTES, unfunded } from './body.ts'
import { encodingOf, inflaterFor } from './content-encoding.ts'

/** The limits of an upload, documented in docs/limits.md. */
const MAX_FILE_BYTES = 100 * 1_048_576
const MAX_FILES_BYTES = 256 * 1_048_576
const MAX_BODY_BYTES = MAX_FILES_BYTES + 8 * 1_048_576
const MAX_FILES = 17
const MAX_FIELDS = 64
const MAX_FIELD_BYTES = 1_048_576
const MAX_FIELDS_BYTES = 4 * 1_048_576
const MAX_NAME_BYTES = 100
const MAX_FILE_NAME = 255
const MAX_BOUNDARY = 70
const MAX_HEADER_BYTES = 2_048
/** A file up to this size stays in memory if there is room. The files of a larger body are written to disk at once. */
const MEMORY_BYTES = 2 * 1_048_576
const ALL_MEMORY_BYTES = 64 * 1_048_576
const PIECE_BYTES = 262_144
const IDLE_MS = 60_000

export type FormFile = StoredFile & { readonly field: string }

/** A multipart body: its fields in order, and its files. */
export type Form = {
  readonly fields: readonly (readonly [name: string, value: string])[]
  readonly files: readonly FormFile[]
  /** Deletes the files; they must not be read afterwards. */
  dispose(): void
}

const malformed = (why: string) =>
  new Refusal('invalid_parameter', `The body is not valid multipart/form-data: ${why}.`)
const faulty = (path: string, message: string) =>
  new Refusal('invalid_parameter', `${path} ${message}`, { errors: [{ path, message }] })
const tooLarge = (what: string, bytes: number) =>
  new Refusal('request_too_large', `${what} larger than ${bytes / 1_048_576} MiB.`)
const fieldTooLarge = (field: string, bytes: number) =>
  new Refusal('request_too_large', `${field} is larger than ${bytes / 1_048_576} MiB`)

/** The limits of an upload beside the constants above. */
type FormBounds = Omit<BodyBounds, 'maxBytes'>

export type Forms = { read(request: RelayIncoming, bounds: FormBounds): Promise<Form> }

/** Receives uploads. Files in its directory never outlive the process. `disk`: the budget of all files on disk. */
export function openForms(dataDir: string, disk: Budget): Forms {
  const dir = join(dataDir, 'tmp')
  mkdirSync(dir, { recursive: true, mode: 0o700 })
  // A file is unlinked as soon as it is open. Files that still have a name were left by a process that crashed before.
  for (const name of readdirSync(dir)) rmSync(join(dir, name), { force: true, recursive: true })
  let fileCount = 0
  const storage: FormStorage = {
    inMemory: 0,
    disk,
    openFile: () => openUnlinked(join(dir, `${process.pid}-${++fileCount}`)),
  }
  return { read: (request, bounds) => readForm(request, storage, bounds) }
}

/** Where files are stored: in memory up to a total, then on disk. */
type FormStorage = { inMemory: number; readonly disk: Budget; openFile(): Promise<FileHandle> }

/** Opens an unlinked file, which the operating system deletes when the process ends. */
async function openUnlinked(path: string): Promise<FileHandle> {
  const handle = await open(path, constants.O_RDWR | constants.O_CREAT | constants.O_EXCL, 0o600)
  try {
    await unlink(path)
  } catch (error) {
    // Another process may have deleted the file at its start.
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') {
      await handle.close()
      throw error
    }
  }
  return handle
}

async function writeAll(handle: FileHandle, bytes: Buffer, at: number): Promise<void> {
  for (let done = 0; done < bytes.length; ) {
    const { bytesWritten } = await handle.write(bytes, done, bytes.length - done, at + done)
    done += bytesWritten
  }
}

/** Stores the bytes of one file: in memory while it is small, then on disk. */
function createStoredFile(storage: FormStorage, share: Share, memoryBytes: number) {
  const chunks: Buffer[] = []
  let size = 0
  let diskBytes = 0
  let handle: FileHandle | undefined
  let users = 0
  let isOver = false

  /** Returns the memory to the total. */
  function releaseChunks(): void {
    for (const chunk of chunks) storage.inMemory -= chunk.length
    chunks.length = 0
  }

  const closeUnused = () => {
    if (!isOver || users > 0) return
    releaseChunks()
    storage.disk.give(diskBytes)
    diskBytes = 0
    if (handle === undefined) return
    const closing = handle
    handle = undefined
    // The file is no longer used, so a failed close has no consequence.
    closing.close().catch(() => {})
  }

  /** Reserves memory for a chunk; false: there is no room. */
  const reserveMemory = ({ length }: Buffer): boolean =>
    size + length <= memoryBytes && storage.inMemory + length <= ALL_MEMORY_BYTES && share.take(length)

  async function write(bytes: Buffer, at: number): Promise<void> {
    if (!storage.disk.take(bytes.length)) throw overloaded(BUDGET_SHORTAGES.tmp)
    diskBytes += bytes.length
    if (handle) await writeAll(handle, bytes, at)
  }

  function joinChunks(): Buffer {
    const [only = Buffer.alloc(0)] = chunks
    if (chunks.length < 2) return only
    const all = Buffer.concat(chunks)
    chunks.splice(0, chunks.length, all)
    return all
  }

  /** Copies only if the range spans several chunks. */
  function piece(offset: number, length: number): Buffer {
    const parts: Buffer[] = []
    let start = 0
    for (const chunk of chunks) {
      const from = Math.max(0, offset - start)
      const to = Math.min(chunk.length, offset + length - start)
      if (from < to) parts.push(chunk.subarray(from, to))
      start += chunk.length
    }
    const [only = Buffer.alloc(0)] = parts
    return parts.length < 2 ? only : Buffer.concat(parts)
  }

  async function readAt(offset: number, length: number): Promise<Buffer> {
    if (handle === undefined) return piece(offset, length)
    users += 1
    try {
      const buffer = Buffer.allocUnsafe(Math.max(0, Math.min(length, size - offset)))
      const { bytesRead } = await handle.read(buffer, 0, buffer.length, offset)
      return buffer.subarray(0, bytesRead)
    } finally {
      users -= 1
      closeUnused()
    }
  }

  async function* pieces() {
    for (let offset = 0; offset < size; ) {
      const piece = await readAt(offset, PIECE_BYTES)
      if (piece.length === 0) throw new Error('an uploaded file ended early')
      offset += piece.length
      yield piece
    }
  }

  return {
    size: () => size,
    async take(chunk: Buffer): Promise<void> {
      users += 1
      try {
        if (handle === undefined && !reserveMemory(chunk)) {
          handle = await storage.openFile()
          await write(joinChunks(), 0)
          releaseChunks()
        }
        if (handle === undefined) {
          chunks.push(chunk)
          storage.inMemory += chunk.length
        } else await write(chunk, size)
        size += chunk.length
      } finally {
        users -= 1
        closeUnused()
      }
    },
    readAt,
    inMemory: () => (handle === undefined ? chunks : undefined),
    open: () => Readable.from(handle === undefined ? [...chunks] : pieces(), { objectMode: false }),
    end(): void {
      isOver = true
      closeUnused()
    },
  }
}

type StoredUpload = ReturnType<typeof createStoredFile>

function boundaryOf(contentType: string): string {
  const [, quoted, bare] = /;\s*boundary=(?:"([^"]*)"|([^\s;]+))/i.exec(contentType) ?? []
  const boundary = quoted ?? bare ?? ''
  if (boundary === '' || boundary.length > MAX_BOUNDARY)
    throw malformed(`its boundary must be 1 to ${MAX_BOUNDARY} characters`)
  return boundary
}

function nameOf(name: string | undefined): string {
  if (!name) throw malformed('a part has no name')
  if (Buffer.byteLength(name) > MAX_NAME_BYTES || hasControl(name))
    throw malformed(`a part's name is longer than ${MAX_NAME_BYTES} bytes or has control characters`)
  return name
}

const TYPE = /^[\w.+-]+\/[\w.+-]+(?:;[\x20-\x7e]*)?$/

/** The body, decompressed. */
function decompressed(request: RelayIncoming): NodeJS.ReadableStream {
  const encoding = encodingOf(request)
  const body = bodyOf(request)
  return encoding === undefined ? body : body.pipe(inflaterFor(encoding)())
}

/** Whether the full limits apply. Without quota, a caller may send only a small body. */
async function hasFullLimits(request: RelayIncoming, { isFunded }: FormBounds): Promise<boolean> {
  const declared = declaredLength(request)
  if (declared !== undefined && declared > MAX_BODY_BYTES) throw tooLarge('The body is', MAX_BODY_BYTES)
  const isSmall = declared !== undefined && declared <= UNFUNDED_BYTES && encodingOf(request) === undefined
  if (isSmall || (await isFunded())) return true
  if (declared !== undefined && declared > UNFUNDED_BYTES) throw unfunded()
  return false
}

/** Receives a multipart body with files and fields in any order, within its limits. */
async function readForm(request: RelayIncoming, storage: FormStorage, bounds: FormBounds): Promise<Form> {
  const contentType = request.headers['content-type'] ?? ''
  boundaryOf(contentType)
  const isUnrestricted = await hasFullLimits(request, bounds)
  if (request.destroyed) throw disconnected()
  const isLarge = (declaredLength(request) ?? 0) > MEMORY_BYTES + MAX_FIELDS_BYTES
  const { share } = bounds
  const body = bodyOf(request)
  const source = decompressed(request)
  const { promise, resolve, reject } = Promise.withResolvers<Form>()
  const fields: (readonly [string, string])[] = []
  const files: FormFile[] = []
  const stored: StoredUpload[] = []
  const writing: Promise<void>[] = []
  let bodyBytes = 0
  let filesBytes = 0
  let fieldsBytes = 0
  let isOver = false

  const busboy = new Busboy({
    headers: { 'content-type': contentType },
    limits: {
      fieldNameSize: MAX_NAME_BYTES + 1,
      fieldSize: MAX_FIELD_BYTES,
      fields: MAX_FIELDS,
      files: MAX_FILES,
      fileSize: MAX_FILE_BYTES,
      parts: MAX_FIELDS + MAX_FILES,
      headerPairs: 16,
      headerSize: MAX_HEADER_BYTES,
    },
  })

  const idle = setTimeout(
    () => fail(new Refusal('request_timeout', 'The request body arrived too slowly.')),
    IDLE_MS,
  )
  const dispose = () => {
    for (const file of stored) file.end()
  }

  function finish(): boolean {
    if (isOver) return false
    isOver = true
    clearTimeout(idle)
    body.off('close', onDisconnect).off('error', onDisconnect).off('data', onBytes)
    source.off('data', count)
    return true
  }

  function fail(error: Error): void {
    if (!finish()) return
    source.unpipe(busboy)
    body.unpipe()
    busboy.destroy()
    dispose()
    body.pause()
    // A disk error is not the client's fault.
    const isOurs = error instanceof Refusal || 'syscall' in error
    reject(isOurs ? error : malformed(error.message.toLowerCase()))
  }

  const onDisconnect = () => {
    if (!request.complete) fail(disconnected())
  }
  /** Limits apply to decompressed bytes, wherever in the body they occur. */
  const count = ({ length }: Buffer) => {
    bodyBytes += length
    if (!isUnrestricted && bodyBytes > UNFUNDED_BYTES) fail(unfunded())
    else if (bodyBytes > MAX_BODY_BYTES) fail(tooLarge('The body is', MAX_BODY_BYTES))
  }
  const onBytes = () => void idle.refresh()

  async function receive(field: string, stream: BusboyFileStream, name: string, type: string): Promise<void> {
    const file = createStoredFile(storage, share, isLarge ? 0 : MEMORY_BYTES)
    stored.push(file)
    stream.once('limit', () => fail(fieldTooLarge(field, MAX_FILE_BYTES)))
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      if (isOver) return
      filesBytes += chunk.length
      if (filesBytes > MAX_FILES_BYTES) throw tooLarge('The files together are', MAX_FILES_BYTES)
      await file.take(chunk)
    }
    const { open, readAt: read, inMemory } = file
    files.push({ field, name, type, size: file.size(), open, read, inMemory })
  }

  busboy.on('file', (field, stream, fileName, _encoding, type) => {
    try {
      const name = (fileName ?? '').split(/[\\/]/).at(-1) ?? ''
      if (codePoints(name) > MAX_FILE_NAME || hasControl(name))
        throw faulty(
          nameOf(field),
          `must have a file name of at most ${MAX_FILE_NAME} characters, without control characters`,
        )
      const done = receive(
        nameOf(field),
        stream,
        name || 'file',
        TYPE.test(type) ? type : 'application/octet-stream',
      )
      writing.push(done)
      done.catch(fail)
    } catch (error) {
      stream.resume()
      fail(error as Error)
    }
  })
  busboy.on('field', (field, value, isNameCut, isCut) => {
    if (isOver) return
    try {
      if (isNameCut) throw malformed(`a part's name is longer than ${MAX_NAME_BYTES} bytes`)
      const name = nameOf(field)
      if (isCut) throw fieldTooLarge(name, MAX_FIELD_BYTES)
      fieldsBytes += Buffer.byteLength(value)
      if (fieldsBytes > MAX_FIELDS_BYTES) throw tooLarge('The fields together are', MAX_FIELDS_BYTES)
      if (!share.take(Buffer.byteLength(value))) throw overloaded(BUDGET_SHORTAGES.memory)
      if (!value.isWellFormed() || value.includes('\ufffd')) throw faulty(name, 'is not valid UTF-8')
      fields.push([name, value])
    } catch (error) {
      fail(error as Error)
    }
  })
  const tooMany = (what: string, limit: number) => () => fail(malformed(`it has more than ${limit} ${what}`))
  busboy
    .on('partsLimit', tooMany('parts', MAX_FIELDS + MAX_FILES))
    .on('filesLimit', tooMany('files', MAX_FILES))
    .on('fieldsLimit', tooMany('fields', MAX_FIELDS))
    .on('error', error => fail(error as Error))
    .on('finish', () => {
      Promise.all(writing)
        .then(() => {
          if (finish()) resolve({ fields, files, dispose })
        })
        .catch(fail)
    })

  body.on('close', onDisconnect).on('error', onDisconnect).on('data', onBytes)
  source.on('data', count)
  if (source !== body) source.on('error', () => fail(malformed('its Content-Encoding is damaged')))
  source.pipe(busboy)
  return promise
}
