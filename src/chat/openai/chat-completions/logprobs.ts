import { isObject, type JsonObject, member } from '../../../domain/json-value.ts'
import { compact } from '../../hub/fields.ts'
import type { TokenLogprob } from '../../hub/hub.ts'

type Alternative = TokenLogprob['top'][number]

/** `logprobs` of a choice or of one chunk. */
export function decodeLogprobs(value: unknown): readonly TokenLogprob[] {
  const content = member(value, 'content')
  if (!Array.isArray(content)) return []
  return content.filter(isObject).map(token => {
    const top = member(token, 'top_logprobs')
    return { ...alternative(token), top: Array.isArray(top) ? top.filter(isObject).map(alternative) : [] }
  })
}

function alternative(value: JsonObject): Alternative {
  const { token, logprob, bytes } = value
  return compact<Alternative>({
    token: typeof token === 'string' ? token : '',
    logprob: typeof logprob === 'number' ? logprob : 0,
    bytes: Array.isArray(bytes) ? bytes.filter(byte => typeof byte === 'number') : undefined,
  })
}

export const encodeLogprobs = (tokens: readonly TokenLogprob[]): JsonObject => ({
  content: tokens.map(token => ({ ...encodeToken(token), top_logprobs: token.top.map(encodeToken) })),
  refusal: null,
})

const encodeToken = ({
  token,
  logprob,
  bytes = null,
}: Omit<Alternative, 'bytes'> & { bytes?: readonly number[] | null }) => ({
  token,
  logprob,
  bytes,
})
