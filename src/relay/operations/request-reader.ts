import { Refusal } from '../../domain/errors.ts'
import type { RequestFault, RequestReading } from '../../requests/request-fields.ts'
import { editTopLevel, type Member } from '../../wire/json-edit.ts'
import type { RelayChannel } from '../catalog/catalog.ts'
import type { UpstreamBody } from './channel-request.ts'

export type RequestBody = Readonly<Record<string, unknown>>
/** The body as the client sent it. */
export type ReadBody = { readonly bytes: Buffer; readonly members?: readonly Member[] | undefined }

/** Converts a fault in a request to a refusal. */
export const refusalOfFault = ({ code, message, param }: RequestFault): Refusal =>
  new Refusal(code, message, param === null ? {} : { errors: [{ path: param, message }] })

export function mustRead<Facts>(reading: RequestReading<Facts>): Facts {
  if ('request' in reading) return reading.request
  throw refusalOfFault(reading.fault)
}

/** The same as `encodedBody`, as an `UpstreamBody`. */
export const clientBody = (...source: Parameters<typeof encodedBody>): UpstreamBody => ({
  body: encodedBody(...source),
  isOwnFormat: true,
})

/** The client's own bytes, with the model's name, the channel's overrides and the members that metering needs. */
export function encodedBody(
  { bytes, members }: ReadBody,
  requestedModel: string,
  sentModel: string,
  channel: RelayChannel,
  more: RequestBody = {},
): Buffer {
  const edits: Record<string, unknown> = { ...more, ...channel.override.members }
  if (sentModel !== requestedModel) edits.model = sentModel
  return Object.keys(edits).length === 0 ? bytes : editTopLevel(bytes, edits, members)
}
