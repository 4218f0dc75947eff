import type { IncomingHttpHeaders } from 'node:http'
import { Refusal } from '../../domain/errors.ts'
import { OverrideError, ToldError } from '../../override/edit.ts'
import { applyOperations, isEmpty } from '../../override/override.ts'
import type { RoutedKey } from '../../routing/table.ts'
import type { RelayChannel } from '../catalog/catalog.ts'
import { clientHeader, fillHeader } from '../catalog/header-override.ts'
import type { ChannelBody, ChannelRequest } from '../operations/channel-request.ts'
import type { OperationSpec, ReadContext } from '../operations/operation.ts'
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

export type Ready<Request extends ChannelBody = ChannelRequest> = {
  readonly headers: Readonly<Record<string, string>>
  readonly outgoing: Request
  /** The request as the channel makes it, where that may cost more than what the client asked for. */
  readonly changed: Bounded | undefined
}

/** Forms and lists of questions have no one document that operations could change. */
const NO_DOCUMENT = Buffer.alloc(0)

const documentOf = ({ body }: ChannelBody) => (Buffer.isBuffer(body) ? body : NO_DOCUMENT)

type Reader = { readonly spec: OperationSpec; readonly desk: ReadContext }

/** The body is read once more after the overrides: they may ask for more than the client did. */
function reread({ isOwnFormat, boundsOf }: ChannelBody, body: Buffer, { spec, desk }: Reader) {
  const parsed = () => JSON.parse(body.toString('utf8')) as Record<string, unknown>
  return isOwnFormat ? spec.read?.(parsed(), body, desk) : boundsOf?.(parsed())
}

/** A request as it goes to one channel, or why the channel's own overrides keep it from going there. */
export function encodeOutgoing<Request extends ChannelBody>(
  sending: Sending,
  reader: Reader,
  given: Readonly<Record<string, string>>,
  outgoing: Request,
): Ready<Request> | AttemptFailure {
  const { channel } = sending
  const document = documentOf(outgoing)
  try {
    const { headers, body } = applyOverrides(sending, { headers: given, body: document })
    const changed = isEmpty(channel.override) ? undefined : reread(outgoing, body, reader)
    return { headers, outgoing: body === document ? outgoing : { ...outgoing, body }, changed }
  } catch (error) {
    if (error instanceof ToldError) return reportedFailure(channel, error.told)
    if (error instanceof OverrideError) return overrideFailure(channel, error.message)
    if (error instanceof Refusal)
      return overrideFailure(channel, `the override makes a request that nobody takes: ${error.message}`)
    throw error
  }
}
