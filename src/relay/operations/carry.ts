import { Refusal } from '../../domain/errors.ts'
import { AnswerError, type Encoded } from '../../media/dialect.ts'
import {
  type DialectOf,
  type Dialects,
  type FormatName,
  formatsFor,
  type Provider,
} from '../../providers/index.ts'
import { encodeDocument } from '../../wire/embedded.ts'
import { JsonError } from '../../wire/json.ts'
import { parseBounded } from '../../wire/json-bounds.ts'
import { parseInSlices, SLICED_BYTES, writeInSlices } from '../../wire/json-slices.ts'
import { encodeMultipart, type FormPart } from '../../wire/multipart.ts'
import type { RelayChannel } from '../catalog/catalog.ts'
import type { AnswerReading, UpstreamBody } from './channel-request.ts'

type DialectOperation = keyof DialectOf

/** The vendor's first format that is either the common one or has a dialect in its file. */
export const formatWith =
  (operation: DialectOperation, common: FormatName) =>
  (provider: Provider, model: string): FormatName | undefined =>
    formatsFor(provider, operation, model).find(
      format => format === common || provider.dialects?.[operation]?.[format] !== undefined,
    )

/** The vendor's dialect for this model; undefined: the vendor takes the common format. */
export function dialectOf<Name extends DialectOperation>(
  operation: Name,
  common: FormatName,
  { provider }: RelayChannel,
  model: string,
): DialectOf[Name] | undefined {
  const format = formatWith(operation, common)(provider, model)
  const dialects: Dialects[Name] | undefined = provider.dialects?.[operation]
  return format && (dialects?.[format] as DialectOf[Name] | undefined)
}

/** The body of a request in a vendor's dialect, with the channel's overrides applied. */
export function upstreamBody(encoded: Encoded, { override }: RelayChannel): UpstreamBody {
  const more = {
    ...(encoded.query && { query: encoded.query }),
    ...(encoded.warnings && { warnings: encoded.warnings }),
    ...(encoded.lostContent && { lostContent: encoded.lostContent }),
  }
  const json = (value: object) => encodeDocument({ ...value, ...override.members })
  if ('json' in encoded) {
    const { headers } = encoded
    return { body: json(encoded.json), ...(headers && { headers }), ...more }
  }
  if ('several' in encoded) return { body: encoded.several.map(json), ...more }
  if ('file' in encoded) {
    const { file } = encoded
    const upload = { length: file.size, open: file.open }
    return { body: upload, headers: { 'content-type': file.type }, ...more }
  }
  const form = encodeMultipart(overridden(encoded.parts, override.members))
  return { body: form, headers: { 'content-type': form.contentType }, ...more }
}

const isScalar = (value: unknown) => ['string', 'number', 'boolean'].includes(typeof value)

function overridden(
  parts: readonly FormPart[],
  overrides: Readonly<Record<string, unknown>>,
): readonly FormPart[] {
  const set = Object.entries(overrides).filter(([, value]) => isScalar(value))
  if (set.length === 0) return parts
  const names = new Set(set.map(([name]) => name))
  return [
    ...parts.filter(({ name }) => !names.has(name)),
    ...set.map(([name, value]) => ({ name, value: String(value) })),
  ]
}

/** Reads an answer. An unreadable one becomes a fault, so that the next channel is tried. */
export function reading(read: () => AnswerReading): AnswerReading {
  try {
    return read()
  } catch (error) {
    return faultOf(error)
  }
}

/** The same for a large answer, asynchronously. */
export async function readingLater(read: () => Promise<AnswerReading>): Promise<AnswerReading> {
  try {
    return await read()
  } catch (error) {
    return faultOf(error)
  }
}

function faultOf(error: unknown): AnswerReading {
  const fault =
    error instanceof AnswerError
      ? error.message
      : error instanceof JsonError
        ? `the response ${error.message}`
        : undefined
  if (fault === undefined) throw error
  return { usage: undefined, outputBytes: 0, fault }
}

const MARK = '\ufeff'
const MARK_BYTES = Buffer.byteLength(MARK)

/** Parses the JSON of a small answer, with or without a byte order mark. */
export function parsedAnswer(body: Buffer): unknown {
  const text = body.toString('utf8')
  return parseBounded(text.startsWith(MARK) ? text.slice(MARK.length) : text)
}

/** Reads an answer that is a JSON document. A large one is parsed in slices, so that the event loop stays responsive. */
export function readingDocument(
  body: Buffer,
  read: (document: unknown) => AnswerReading,
): AnswerReading | Promise<AnswerReading> {
  if (body.length <= SLICED_BYTES) return reading(() => read(parsedAnswer(body)))
  return readingLater(async () => read(await parseInSlices(withoutMark(body))))
}

const withoutMark = (body: Buffer): Buffer => (body.indexOf(MARK) === 0 ? body.subarray(MARK_BYTES) : body)

export const JSON_UTF8_TYPE = 'application/json; charset=utf-8'

export const jsonAnswer = (value: unknown) => ({
  body: Buffer.from(JSON.stringify(value)),
  contentType: JSON_UTF8_TYPE,
})

/** The client's answer, derived from a provider's answer (`source`). A large one is serialized in slices, on demand. */
export const answerFrom = (source: Buffer, value: () => unknown) =>
  source.length <= SLICED_BYTES
    ? jsonAnswer(value())
    : async () => ({ body: await writeInSlices(value()), contentType: JSON_UTF8_TYPE })

/** The meter of operations that never stream. */
export function neverStreams(): never {
  throw new Error('this operation has no streamed answers')
}

export const badParameter = (path: string, message: string) =>
  new Refusal('invalid_parameter', `${path} ${message}`, { errors: [{ path, message }] })
