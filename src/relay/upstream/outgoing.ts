import type { IncomingHttpHeaders } from 'node:http'
import { Refusal } from '../../domain/errors.ts'
import { OverrideError, ReturnedError } from '../../override/edit.ts'
import { applyOperations, isEmpty } from '../../override/override.ts'
import type { RoutedKey } from '../../routing/table.ts'
import type { RelayChannel } from '../catalog/catalog.ts'
import { clientHeader, fillHeader } from '../catalog/header-override.ts'
import type { EncodedWork, OperationSpec, ReadContext } from '../operations/operation.ts'
import type { RequestPrice } from '../price/price.ts'
import { type AttemptFailure, overrideFailure, reportedFailure } from './failure.ts'

export type Sending = {
  readonly channel: RelayChannel
  readonly key: RoutedKey
  /** The name the client asked for, and the one that is sent. */
  readonly asked: string
  readonly sent: string
  /** What the client sent with its request; nothing for a test. */
  readonly client: IncomingHttpHeaders
}

type Clothes = { readonly headers: Readonly<Record<string, string>>; readonly body: Buffer }

/** Header overrides, then the operations on a body that is JSON; a channel without any costs a look. */
function applyOverrides({ channel, key, asked, sent, client }: Sending, clothes: Clothes): Clothes {
  const { headerOverride, override } = channel
  if (headerOverride.templates.length === 0 && override.operations.length === 0) return clothes
  const fill = (template: string) => fillHeader(template, client, key.value)
  const headers = { ...clothes.headers }
  for (const [name, template] of headerOverride.templates) {
    const value = fill(template)
    if (value !== undefined) headers[name] = value
  }
  if (override.operations.length === 0 || clothes.body.length === 0) return { headers, body: clothes.body }
  const applied = applyOperations(override.operations, {
    bytes: clothes.body,
    headers,
    facts: { original_model: asked, upstream_model: sent },
    clientHeader: name => clientHeader(client, name),
    fill,
  })
  return { headers: applied.headers, body: applied.bytes }
}

type Bounded = Parameters<RequestPrice['boundFor']>[1]

export type Ready = {
  readonly headers: Readonly<Record<string, string>>
  readonly dressed: Buffer | EncodedWork
  /** The request as the channel makes it, where that may cost more than what the client asked for. */
  readonly changed: Bounded | undefined
}

/** Forms and lists of questions have no one document that operations could change. */
const NO_DOCUMENT = Buffer.alloc(0)

const documentOf = (dressed: Buffer | EncodedWork) => {
  if (Buffer.isBuffer(dressed)) return dressed
  return Buffer.isBuffer(dressed.body) ? dressed.body : NO_DOCUMENT
}

type Reader = { readonly spec: OperationSpec; readonly desk: ReadContext }

/** What is sent can be read once more: the override may ask for more than the client did. */
function reread(dressed: Buffer | EncodedWork, body: Buffer, { spec, desk }: Reader): Bounded | undefined {
  const parsed = () => JSON.parse(body.toString('utf8')) as Record<string, unknown>
  return Buffer.isBuffer(dressed) ? spec.read?.(parsed(), body, desk) : dressed.boundsOf?.(parsed())
}

/** A request as it goes to one channel, or why the channel's own overrides keep it from going there. */
export function encodeOutgoing(
  sending: Sending,
  reader: Reader,
  given: Readonly<Record<string, string>>,
  dressed: Buffer | EncodedWork,
): Ready | AttemptFailure {
  const { channel } = sending
  const document = documentOf(dressed)
  try {
    const { headers, body } = applyOverrides(sending, { headers: given, body: document })
    const changed = isEmpty(channel.override) ? undefined : reread(dressed, body, reader)
    if (body === document) return { headers, dressed, changed }
    return { headers, dressed: Buffer.isBuffer(dressed) ? body : { ...dressed, body }, changed }
  } catch (error) {
    if (error instanceof ReturnedError) return reportedFailure(channel, error.response)
    if (error instanceof OverrideError) return overrideFailure(channel, error.message)
    if (error instanceof Refusal)
      return overrideFailure(channel, `the override makes a request that nobody takes: ${error.message}`)
    throw error
  }
}
