import type { Address, DecodedRequest } from '../format.ts'
import { isObject, member } from '../openai/value.ts'
import { decodeRequest } from './decode-request.ts'

/** The body of `countTokens`: a whole request inside, or nothing but its contents. */
export function decodeCount(body: unknown, address: Address = {}): DecodedRequest {
  const inner = member(body, 'generateContentRequest') ?? member(body, 'generate_content_request')
  return decodeRequest(isObject(inner) ? inner : body, address)
}
