import { isObject, type JsonObject, member } from '../../domain/json-value.ts'
import type { TokenLogprob } from '../hub/hub.ts'

type Alternative = TokenLogprob['top'][number]

/** `logprobsResult` of a candidate: one list of tokens, and one list of alternatives per token. */
export function decodeLogprobs(result: unknown): readonly TokenLogprob[] {
  const tops = listOf(member(result, 'topCandidates'))
  return listOf(member(result, 'chosenCandidates'))
    .filter(isObject)
    .map((token, at) => ({
      ...alternative(token),
      top: listOf(member(tops[at], 'candidates')).filter(isObject).map(alternative),
    }))
}

const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])

const alternative = ({ token, logProbability }: JsonObject): Alternative => ({
  token: typeof token === 'string' ? token : '',
  logprob: typeof logProbability === 'number' ? logProbability : 0,
})

export const encodeLogprobs = (tokens: readonly TokenLogprob[]): JsonObject => ({
  chosenCandidates: tokens.map(encodeToken),
  topCandidates: tokens.map(({ top }) => ({ candidates: top.map(encodeToken) })),
})

const encodeToken = ({ token, logprob }: Alternative) => ({ token, logProbability: logprob })
