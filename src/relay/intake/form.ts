import { mkdirSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { Busboy, type BusboyFileStream } from '@fastify/busboy'
import { Refusal } from '../../domain/errors.ts'
import { BUDGET_SHORTAGES } from '../../domain/shortage.ts'
import { codePoints, hasControl } from '../../domain/text.ts'
import { type Budget, overloaded } from '../../http/budget.ts'
import { bodyOf, type RelayIncoming } from '../../http/relay-exchange.ts'
import {
  type BodyBounds,
  bodyTooSlow,
  declaredLength,
  disconnected,
  UNFUNDED_BYTES,
  unfunded,
} from './body.ts'
import { createBodyMemory } from './body-memory.ts'
import { encodingOf, inflaterFor } from './content-encoding.ts'
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
import { createStoredFile, type FormStorage, openUnlinked, type StoredUpload } from './form-storage.ts'
import { formInMemory, receiveInMemory } from './memory-form.ts'

/** The limits of an upload, documented in docs/limits.md. */
const MAX_FILE_BYTES = 100 * 1_048_576
const MAX_FILES_BYTES = 256 * 1_048_576
const MAX_BODY_BYTES = MAX_FILES_BYTES + 8 * 1_048_576
const MAX_FIELDS_BYTES = 4 * 1_048_576
const MAX_BOUNDARY = 70
const MAX_HEADER_BYTES = 2_048
/** A file up to this size stays in memory if there is room. The files of a larger body are written to disk at once. */
const MEMORY_BYTES = 2 * 1_048_576

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
    memory: createBodyMemory(),
    disk,
    openFile: () => openUnlinked(join(dir, `${process.pid}-${++fileCount}`)),
  }
  return { read: (request, bounds) => readForm(request, storage, bounds) }
}

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
  const small = isSmallBody(request) ? await receiveInMemory(request, storage, bounds.share) : undefined
  const form = small && formInMemory(small)
  if (form) return form
  // The general parser reads the same bytes.
  small?.forget()
  return readGeneralForm(request, storage, bounds, isUnrestricted, small && streamOf(small.bytes))
}

const isSmallBody = (request: RelayIncoming) =>
  (declaredLength(request) ?? Infinity) <= MEMORY_BYTES && encodingOf(request) === undefined

function streamOf(bytes: Buffer): Readable {
  const stream = new Readable({ read() {} })
  stream.push(bytes)
  stream.push(null)
  return stream
}

/** Reads any multipart body while it arrives, or one that has arrived. */
async function readGeneralForm(
  request: RelayIncoming,
  storage: FormStorage,
  bounds: FormBounds,
  isUnrestricted: boolean,
  arrived: Readable | undefined,
): Promise<Form> {
  const contentType = request.headers['content-type'] ?? ''
  const isLarge = (declaredLength(request) ?? 0) > MEMORY_BYTES + MAX_FIELDS_BYTES
  const { share } = bounds
  const body = bodyOf(request)
  const source: NodeJS.ReadableStream = arrived ?? decompressed(request)
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

  const idle = setTimeout(() => fail(bodyTooSlow()), BODY_IDLE_MS)
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
