import type { Script } from '../script.ts'
import type { ApplyFault, FaultContext } from './fault.ts'
import { BIG, filler, frameOf, instead, withHeaders } from './frames.ts'

// Error responses and redirects.

const RETRY_DATE_MS = 30_000
const JSON_TYPE = 'application/json'
// Coprime to 100, so that failures are scattered and every hundred requests have their exact share.
const FLAKY_STRIDE = 37

export const status: ApplyFault = (script, scene) => failure(script, scene)

export const statusRetry: ApplyFault = (script, scene) => failure(script, scene, String(scene.numbers[1]))

export const statusRetryDate: ApplyFault = (script, scene) =>
  failure(script, scene, new Date(scene.time.getTime() + RETRY_DATE_MS).toUTCString())

export const statusRetryGarbage: ApplyFault = (script, scene) =>
  failure(script, scene, 'when the moon is full')

/** Insufficient credit instead of a rate limit: retrying soon does not help. */
export const statusQuota: ApplyFault = (script, { format, numbers: [code = 429] }) => {
  const message = 'The simulator was told that your account is used up.'
  const body = format.encodeFailure({ status: code, message, isOutOfQuota: true })
  return instead(script, { status: code, type: JSON_TYPE, body })
}

/** An error that repeats the key, as some providers do. */
export const errorKey: ApplyFault = (script, { format, key = '' }) => {
  const body = format.encodeFailure({ status: 401, message: `Incorrect API key provided: ${key}.` })
  return instead(script, { status: 401, type: JSON_TYPE, body })
}

export const bigError: ApplyFault = (script, { format }) => {
  const mark = '@'
  const [before = '', after = ''] = format.encodeFailure({ status: 500, message: mark }).split(mark)
  function* frames() {
    yield frameOf(before)
    yield* filler()
    yield frameOf(after)
  }
  const errorScript = instead(script, { status: 500, type: JSON_TYPE, body: '' })
  const head = withHeaders(errorScript.head, { 'content-length': before.length + BIG + after.length })
  return { ...errorScript, head, frames: frames() }
}

/** Fails in N of a hundred requests. */
export const flaky: ApplyFault = (script, scene) => {
  const [percent = 0] = scene.numbers
  const isBad = ((scene.turn + 1) * FLAKY_STRIDE) % 100 < percent
  return isBad ? failure(script, { ...scene, numbers: [500] }) : script
}

export const redirect: ApplyFault = (script, { headers, url }) => {
  const target = headers['x-sim-redirect-to']
  const location = typeof target === 'string' ? target : `http://${headers.host}${url}`
  const redirectScript = instead(script, {
    status: 302,
    type: 'text/plain',
    body: `Found elsewhere: ${location}\n`,
  })
  return { ...redirectScript, head: withHeaders(redirectScript.head, { location }) }
}

function failure(
  script: Script,
  { format, numbers: [code = 500] }: FaultContext,
  retryAfter?: string,
): Script {
  const body = format.encodeFailure({ status: code, message: `The simulator was told to fail with ${code}.` })
  const errorScript = instead(script, { status: code, type: JSON_TYPE, body })
  const headers = {
    ...format.failureHeaders?.(code),
    ...(retryAfter !== undefined && { 'retry-after': retryAfter }),
  }
  return { ...errorScript, head: withHeaders(errorScript.head, headers) }
}
