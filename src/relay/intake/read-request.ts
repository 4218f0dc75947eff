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
import type { Form, Forms } from './form.ts'
import { type RequestTags, tagsOf } from './tags.ts'

const isJson = (contentType: string | undefined) =>
  contentType === undefined || /^\s*(application\/(?:[\w.+-]*\+)?json|text\/plain)\b/i.test(contentType)

const isMultipart = (contentType: string | undefined) =>
  contentType !== undefined && /^\s*multipart\/form-data\b/i.test(contentType)

const TAKES = { json: 'application/json', form: 'multipart/form-data' } as const

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

/** Reads the request as its operation needs it. */
export async function readRequest<W extends Work>(
  request: RelayIncoming,
  spec: Reader<W>,
  deps: Reading,
  bounds: Bounds,
): Promise<W> {
  const work = await readWork(request, spec, deps, bounds)
  const strict = request.headers['x-sluice-strict']
  if (strict === 'true') return { ...work, isStrict: true }
  return strict === 'false' ? { ...work, isLossy: true } : work
}

async function readWork<W extends Work>(
  request: RelayIncoming,
  spec: Reader<W>,
  { maxBodyBytes, forms, readContext }: Reading,
  bounds: Bounds,
): Promise<W> {
  const contentType = request.headers['content-type']
  if (spec.readForm && isMultipart(contentType)) {
    const form = await forms.read(request, bounds)
    bounds.capture?.form(form)
    try {
      // Some servers would take a text field with a file's name for that file.
      const names = [...form.files.map(({ field }) => field), ...form.fields.map(([name]) => name)]
      const fault = formNameFault(names, spec.names ?? 'snake')
      if (fault) throw refusalOfFault(fault)
      // Video operations check this themselves: their fields may be nested in an object.
      const tags = tagsOf(request.headers)
      if (spec.names === 'vendor')
        return { ...tagged(await spec.readForm(form, readContext), tags), dispose: form.dispose }
      const { form: plainForm, removed } = withoutRoutingFields(form)
      return reportingRemoved(
        { ...tagged(await spec.readForm(plainForm, readContext), tags), dispose: form.dispose },
        removed,
      )
    } catch (error) {
      form.dispose()
      throw error
    }
  }
  if (!spec.read || !isJson(contentType)) {
    const types = [...(spec.read ? [TAKES.json] : []), ...(spec.readForm ? [TAKES.form] : [])]
    throw new Refusal(
      'unsupported_media_type',
      `The Content-Type is not supported. Send the body as ${types.join(' or ')}.`,
    )
  }
  const bytes = await readBody(request, { ...bounds, maxBytes: maxBodyBytes })
  bounds.capture?.request(bytes)
  const { value: parsed, members, names } = await parse(bytes, spec.skims === true)
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed))
    throw new Refusal('invalid_json', 'The body must be a JSON object.')
  const value = parsed as Record<string, unknown>
  // Parsing a large body has used up this turn of the event loop. Its names and its content are read in turns of their
  // own.
  const isLarge = bytes.length > LARGE_BYTES
  if (isLarge) await setImmediate()
  // The provider must read the same values that the gateway routes and bills by.
  const fault = nameFault({ value, names, bytes }, spec.names ?? 'snake')
  if (fault) throw refusalOfFault(fault)
  if (isLarge) await setImmediate()
  // The `metadata` of a video has fields of its vendor.
  const tags = tagsOf(request.headers, spec.names === 'vendor' ? { user: value.user } : value)
  if (spec.names !== 'vendor' && hasRoutingFields(members))
    return tagged(readRouted(spec.read, { value, bytes, members }, readContext), tags)
  return tagged(spec.read(value, bytes, readContext, members), tags)
}

const tagged = <W extends Work>(work: W, tags: RequestTags | undefined): W =>
  tags === undefined ? work : { ...work, tags }

async function parse(bytes: Buffer, isSkimmed: boolean): Promise<JsonRead> {
  try {
    return await readJson(bytes, isSkimmed)
  } catch (error) {
    if (error instanceof JsonError) throw new Refusal('invalid_json', `The body ${error.message}.`)
    throw error
  }
}
