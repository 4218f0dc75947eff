import { setImmediate } from 'node:timers/promises'
import { Refusal } from '../../domain/errors.ts'
import type { RelayIncoming } from '../../http/relay-exchange.ts'
import { formNameFault, nameFault } from '../../requests/field-rules.ts'
import { JsonError } from '../../wire/json.ts'
import type { Member } from '../../wire/json-edit.ts'
import { type JsonRead, LARGE_BYTES, readJson } from '../../wire/json-skim.ts'
import type { BodyCapture } from '../bodies/capture.ts'
import type { OperationSpec, ReadContext, Work } from '../operations/operation.ts'
import { refusalOfFault } from '../operations/request-reader.ts'
import {
  hasRoutingFields,
  readRouted,
  reportingRemoved,
  withoutRoutingFields,
} from '../operations/routing-fields.ts'
import { type BodyBounds, readBody } from './body.ts'
import type { Forms } from './form.ts'
import type { Form } from './form-content.ts'
import { type RequestTags, tagsOf } from './tags.ts'

const TAKES = { json: 'application/json', form: 'multipart/form-data' } as const

const isJson = (contentType: string | undefined) =>
  contentType === undefined ||
  contentType === TAKES.json ||
  /^\s*(application\/(?:[\w.+-]*\+)?json|text\/plain)\b/i.test(contentType)

const isMultipart = (contentType: string | undefined) =>
  contentType !== undefined && /^\s*multipart\/form-data\b/i.test(contentType)

/** How an operation reads its requests. */
type Reader<W extends Work> = Pick<OperationSpec, 'skims' | 'names'> & {
  read?(
    parsed: Record<string, unknown>,
    bytes: Buffer,
    readContext: ReadContext,
    members?: readonly Member[],
  ): W
  readForm?(form: Form, readContext: ReadContext): W | Promise<W>
}

type Reading = { readonly maxBodyBytes: number; readonly forms: Forms; readonly readContext: ReadContext }

type Bounds = Omit<BodyBounds, 'maxBytes'> & { readonly capture?: BodyCapture | undefined }

/** Reads the request as its operation needs it. Synchronous for a small JSON body that has arrived with the headers. */
export function readRequest<W extends Work>(
  request: RelayIncoming,
  spec: Reader<W>,
  deps: Reading,
  bounds: Bounds,
): W | Promise<W> {
  const work = readWork(request, spec, deps, bounds)
  const strict = request.headers['x-sluice-strict']
  if (strict === undefined) return work
  return work instanceof Promise ? work.then(each => marked(each, strict)) : marked(work, strict)
}

function marked<W extends Work>(work: W, strict: string | string[]): W {
  if (strict === 'true') return Object.assign(work, { isStrict: true })
  return strict === 'false' ? Object.assign(work, { isLossy: true }) : work
}

function readWork<W extends Work>(
  request: RelayIncoming,
  spec: Reader<W>,
  deps: Reading,
  bounds: Bounds,
): W | Promise<W> {
  const contentType = request.headers['content-type']
  if (spec.readForm && isMultipart(contentType))
    return readFormWork(request, spec.readForm, spec, deps, bounds)
  const { read } = spec
  if (!read || !isJson(contentType)) throw unsupportedType(spec)
  const body = readBody(request, {
    maxBytes: deps.maxBodyBytes,
    share: bounds.share,
    isFunded: bounds.isFunded,
  })
  const reading = { request, read, spec, readContext: deps.readContext, capture: bounds.capture }
  return body instanceof Promise
    ? body.then(bytes => readDocument(bytes, reading))
    : readDocument(body, reading)
}

function unsupportedType<W extends Work>(spec: Reader<W>): Refusal {
  const types = [...(spec.read ? [TAKES.json] : []), ...(spec.readForm ? [TAKES.form] : [])]
  return new Refusal(
    'unsupported_media_type',
    `The Content-Type is not supported. Send the body as ${types.join(' or ')}.`,
  )
}

async function readFormWork<W extends Work>(
  request: RelayIncoming,
  readForm: NonNullable<Reader<W>['readForm']>,
  spec: Reader<W>,
  { forms, readContext }: Reading,
  bounds: Bounds,
): Promise<W> {
  const form = await forms.read(request, bounds)
  bounds.capture?.form(form)
  try {
    // Some servers would take a text field with a file's name for that file.
    const names = [...form.files.map(({ field }) => field), ...form.fields.map(([name]) => name)]
    const fault = formNameFault(names, spec.names ?? 'snake')
    if (fault) throw refusalOfFault(fault)
    const tags = tagsOf(request.headers)
    const { dispose } = form
    // Video operations check routing fields themselves: their fields may be nested in an object.
    if (spec.names === 'vendor')
      return Object.assign(tagged(await readForm(form, readContext), tags), { dispose })
    const { form: plainForm, removed } = withoutRoutingFields(form)
    const work = Object.assign(tagged(await readForm(plainForm, readContext), tags), { dispose })
    return reportingRemoved(work, removed)
  } catch (error) {
    form.dispose()
    throw error
  }
}

/** A JSON body and how it is read. */
type DocumentReading<W extends Work> = {
  readonly request: RelayIncoming
  readonly read: NonNullable<Reader<W>['read']>
  readonly spec: Reader<W>
  readonly readContext: ReadContext
  readonly capture: BodyCapture | undefined
}

function readDocument<W extends Work>(bytes: Buffer, reading: DocumentReading<W>): W | Promise<W> {
  reading.capture?.request(bytes)
  if (bytes.length > LARGE_BYTES) return readLargeDocument(bytes, reading)
  const parsed = parse(bytes, reading.spec.skims === true) as JsonRead
  return workOf(bytes, checked(bytes, parsed, reading), reading)
}

/** Parsing a large body has used up its turn of the event loop. Its names and its content are read in turns of their own. */
async function readLargeDocument<W extends Work>(bytes: Buffer, reading: DocumentReading<W>): Promise<W> {
  const parsed = await parse(bytes, reading.spec.skims === true)
  await setImmediate()
  const document = checked(bytes, parsed, reading)
  await setImmediate()
  return workOf(bytes, document, reading)
}

type Document = { readonly value: Record<string, unknown>; readonly members: readonly Member[] }

/** The provider must read the same values that the gateway routes and bills by. */
function checked<W extends Work>(
  bytes: Buffer,
  { value: parsed, members, names }: JsonRead,
  { spec }: DocumentReading<W>,
): Document {
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed))
    throw new Refusal('invalid_json', 'The body must be a JSON object.')
  const value = parsed as Record<string, unknown>
  const fault = nameFault({ value, names, bytes }, spec.names ?? 'snake')
  if (fault) throw refusalOfFault(fault)
  return { value, members }
}

function workOf<W extends Work>(
  bytes: Buffer,
  { value, members }: Document,
  { request, read, spec, readContext }: DocumentReading<W>,
): W {
  // The `metadata` of a video has fields of its vendor.
  const isVendor = spec.names === 'vendor'
  const tags = tagsOf(request.headers, isVendor ? { user: value.user } : value)
  const work =
    !isVendor && hasRoutingFields(members)
      ? readRouted(read, { value, bytes, members }, readContext)
      : read(value, bytes, readContext, members)
  return tagged(work, tags)
}

/** The work was just read, and only its reader has it, so it is changed in place. */
const tagged = <W extends Work>(work: W, tags: RequestTags | undefined): W =>
  tags === undefined ? work : Object.assign(work, { tags })

function parse(bytes: Buffer, isSkimmed: boolean): JsonRead | Promise<JsonRead> {
  try {
    const parsed = readJson(bytes, isSkimmed)
    return parsed instanceof Promise ? parsed.catch(refuseJson) : parsed
  } catch (error) {
    return refuseJson(error)
  }
}

function refuseJson(error: unknown): never {
  if (error instanceof JsonError) throw new Refusal('invalid_json', `The body ${error.message}.`)
  throw error
}
