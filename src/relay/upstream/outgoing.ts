import type { IncomingHttpHeaders } from 'node:http'
import { Refusal } from '../../domain/errors.ts'
import { OverrideError, ReturnedError } from '../../override/edit.ts'
import { applyOperations, isEmpty } from '../../override/override.ts'
import type { RoutedKey } from '../../routing/table.ts'
import type { RelayChannel } from '../catalog/catalog.ts'
import { clientHeader, fillHeader } from '../catalog/header-override.ts'
import type { ChannelRequest, UpstreamBody } from '../operations/channel-request.ts'
import type { OperationSpec, ReadContext } from '../operations/operation.ts'
import type { RequestPrice } from '../price/price.ts'
import { type AttemptFailure, errorResponseFailure, overrideFailure } from './failure.ts'

export type Sending = {
  readonly channel: RelayChannel
  readonly key: RoutedKey
  /** The model that the client requested. `sentModel` is the one that is sent. */
  readonly requestedModel: string
  readonly sentModel: string
  /** The client's headers; empty for a channel test. */
  readonly client: IncomingHttpHeaders
}

type EncodedRequest = { readonly headers: Readonly<Record<string, string>>; readonly body: Buffer }

/** Applies the header overrides, then the operations on a JSON body. */
function applyOverrides(
  { channel, key, requestedModel, sentModel, client }: Sending,
  encoded: EncodedRequest,
): EncodedRequest {
  const { headerOverride, override } = channel
  if (headerOverride.templates.length === 0 && override.operations.length === 0) return encoded
  const fill = (template: string) => fillHeader(template, client, key.value)
  const headers = { ...encoded.headers }
  for (const [name, template] of headerOverride.templates) {
    const value = fill(template)
    if (value !== undefined) headers[name] = value
  }
  if (override.operations.length === 0 || encoded.body.length === 0) return { headers, body: encoded.body }
  const applied = applyOperations(override.operations, {
    bytes: encoded.body,
    headers,
    facts: { original_model: requestedModel, upstream_model: sentModel },
    clientHeader: name => clientHeader(client, name),
    fill,
  })
  return { headers: applied.headers, body: applied.bytes }
}

type Bounded = Parameters<RequestPrice['boundFor']>[1]

export type Ready<Request extends UpstreamBody = ChannelRequest> = {
  readonly headers: Readonly<Record<string, string>>
  readonly outgoing: Request
  /** The request after the channel's overrides, if it may cost more than the client's own. */
  readonly overriddenRequest: Bounded | undefined
}

/** Forms and lists of bodies are not a single document that operations could change. */
const NO_DOCUMENT = Buffer.alloc(0)

const documentOf = ({ body }: UpstreamBody) => (Buffer.isBuffer(body) ? body : NO_DOCUMENT)

type Reader = { readonly spec: OperationSpec; readonly readContext: ReadContext }

/** Reads the body again after the overrides, because they may request more than the client did. */
function reread({ isOwnFormat, boundsOf }: UpstreamBody, body: Buffer, { spec, readContext }: Reader) {
  const parsed = () => JSON.parse(body.toString('utf8')) as Record<string, unknown>
  return isOwnFormat ? spec.read?.(parsed(), body, readContext) : boundsOf?.(parsed())
}

/** The request for one channel, or the failure if the channel's own overrides reject it. */
export function encodeOutgoing<Request extends UpstreamBody>(
  sending: Sending,
  reader: Reader,
  plainHeaders: Readonly<Record<string, string>>,
  outgoing: Request,
): Ready<Request> | AttemptFailure {
  const { channel } = sending
  const document = documentOf(outgoing)
  try {
    const { headers, body } = applyOverrides(sending, { headers: plainHeaders, body: document })
    const overriddenRequest = isEmpty(channel.override) ? undefined : reread(outgoing, body, reader)
    return { headers, outgoing: body === document ? outgoing : { ...outgoing, body }, overriddenRequest }
  } catch (error) {
    if (error instanceof ReturnedError) return errorResponseFailure(channel, error.response)
    if (error instanceof OverrideError) return overrideFailure(channel, error.message)
    if (error instanceof Refusal)
      return overrideFailure(channel, `the channel's override makes the request invalid: ${error.message}`)
    throw error
  }
}
