/** The characters of a request id that are its time in milliseconds (`http/request-id.ts`). */
const TIMED_ID = /^req_([0-9A-HJKMNP-TV-Z]{10})[0-9A-HJKMNP-TV-Z]{16}$/
const ALPHABET = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'

/** When a request began, in seconds, by the id that the gateway gave it; undefined for an id of another kind. */
export function requestTime(requestId: string): number | undefined {
  const text = TIMED_ID.exec(requestId)?.[1]
  if (text === undefined) return undefined
  let timeMs = 0
  for (const character of text) timeMs = timeMs * 32 + ALPHABET.indexOf(character)
  return Math.floor(timeMs / 1000)
}
