import { member, textOf } from '../../../domain/json-value.ts'
import { chatError, errorKind, retryAfterS } from '../../hub/error.ts'
import type { VendorErrorAnswer } from '../../hub/format.ts'
import type { ChatError, ErrorKind } from '../../hub/hub.ts'

/** The error class is more precise than the status, and an error inside a stream has no status. */
const KINDS: Readonly<Record<string, ErrorKind>> = {
  accessdenied: 'permission',
  unrecognizedclient: 'auth',
  invalidsignature: 'auth',
  expiredtoken: 'auth',
  missingauthenticationtoken: 'auth',
  resourcenotfound: 'notFound',
  throttling: 'rateLimit',
  modelnotready: 'overloaded',
  servicequotaexceeded: 'quota',
  serviceunavailable: 'overloaded',
  modeltimeout: 'timeout',
  modelerror: 'server',
  modelstreamerror: 'server',
  internalserver: 'server',
}

/** `{message}`; the class is in a header, in `__type`, or in the headers of a frame. */
export function decodeError({ status, body, header }: VendorErrorAnswer): ChatError {
  const errorType = header?.('x-amzn-errortype') ?? textOf(member(body, '__type'))
  // `ThrottlingException:http://…`, `com.amazon.coral#ThrottlingException`
  const type = errorType?.split(':')[0]?.split('#').at(-1)
  const message = textOf(member(body, 'message')) ?? textOf(member(body, 'Message')) ?? textOf(body)
  return errorOf(type, message ?? `The provider returned status ${status}.`, {
    status,
    retryAfterS: retryAfterS(header),
  })
}

export function errorOf(
  type: string | undefined,
  message: string,
  { status, retryAfterS }: { status: number; retryAfterS?: number | undefined },
): ChatError {
  const name = type?.toLowerCase().replace(/(exception|error)$/, '')
  const isInvalid = name === 'validation'
  const effectiveStatus = status >= 400 ? status : isInvalid ? 400 : 500
  const kind = (name !== undefined && KINDS[name]) || errorKind(effectiveStatus, message, [])
  return chatError(kind, message, { type, retryAfterS })
}
