import { Refusal } from '../../domain/errors.ts'
import { AnswerError, type Encoded } from '../../formats/media/dialect.ts'
import {
  type DialectOf,
  type Dialects,
  type Format,
  formatsFor,
  type Provider,
} from '../../providers/index.ts'
import { encodeDocument } from '../../wire/embedded.ts'
import { JsonError } from '../../wire/json.ts'
import { encodeMultipart, type Part } from '../../wire/multipart.ts'
import type { RelayChannel } from '../catalog.ts'
import type { Dressed, WholeReading } from './operation.ts'

type Spoken = keyof DialectOf

/** The first format of a vendor that is the common one, or that its file says how to speak. */
export const formatWith =
  (operation: Spoken, common: Format) =>
  (provider: Provider, model: string): Format | undefined =>
    formatsFor(provider, operation, model).find(
      format => format === common || provider.dialects?.[operation]?.[format] !== undefined,
    )

/** How a vendor speaks for this model; undefined where it speaks the common shape. */
export function dialectOf<Name extends Spoken>(
  operation: Name,
  common: Format,
  { provider }: RelayChannel,
  model: string,
): DialectOf[Name] | undefined {
  const format = formatWith(operation, common)(provider, model)
  const dialects: Dialects[Name] | undefined = provider.dialects?.[operation]
  return format && (dialects?.[format] as DialectOf[Name] | undefined)
}

/** A request in a vendor's words, as it goes over the wire; what the channel overrides is laid over it. */
export function carry(encoded: Encoded, { override }: RelayChannel): Dressed {
  const more = {
    ...(encoded.query && { query: encoded.query }),
    ...(encoded.warnings && { warnings: encoded.warnings }),
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

function overridden(parts: readonly Part[], overrides: Readonly<Record<string, unknown>>): readonly Part[] {
  const set = Object.entries(overrides).filter(([, value]) => isScalar(value))
  if (set.length === 0) return parts
  const names = new Set(set.map(([name]) => name))
  return [
    ...parts.filter(({ name }) => !names.has(name)),
    ...set.map(([name, value]) => ({ name, value: String(value) })),
  ]
}

/** Reads an answer; one that is none becomes a fault, so that the next channel is asked. */
export function reading(read: () => WholeReading): WholeReading {
  try {
    return read()
  } catch (error) {
    if (error instanceof AnswerError || error instanceof JsonError)
      return { usage: undefined, outputBytes: 0, fault: error.message }
    throw error
  }
}

const MARK = '\ufeff'

/** An answer's JSON, with or without a mark of its byte order before it. */
export function parsedAnswer(body: Buffer): unknown {
  const text = body.toString('utf8')
  try {
    return JSON.parse(text.startsWith(MARK) ? text.slice(MARK.length) : text)
  } catch {
    throw new AnswerError('the answer is not JSON')
  }
}

export const JSON_TYPE = 'application/json; charset=utf-8'

export const jsonAnswer = (value: unknown) => ({
  body: Buffer.from(JSON.stringify(value)),
  contentType: JSON_TYPE,
})

export const badParameter = (path: string, message: string) =>
  new Refusal('invalid_parameter', `${path} ${message}`, { errors: [{ path, message }] })
