import type { IncomingHttpHeaders } from 'node:http'
import { findModel, MODELS, type Model } from '../models.ts'
import { ProviderError, type RefusalKind } from '../provider-error.ts'
import type { Failure, Inquiry, Protocol, Reply } from './format.ts'
import { answerChat } from './openai-chat.ts'
import { answerCompletions } from './openai-completions.ts'
import { answerEmbeddings } from './openai-embeddings.ts'
import { answerImageEdits, answerImages } from './openai-images.ts'
import { answerModeration } from './openai-moderation.ts'
import { answerResponses } from './openai-responses.ts'
import { answerSpeech } from './openai-speech.ts'
import { answerTranscription, answerTranslation } from './openai-transcription.ts'
import { listVideos, remixVideo, removeVideo, showFilm, showVideo, submitVideo } from './openai-videos.ts'
import { answerCohereRerank, answerRerank } from './rerank.ts'

const RELEASED = 1_735_689_600

/** OpenAI's API: the shared parts and the list of endpoints. */
export const openai = {
  name: 'OpenAI',
  keyOf: bearerOf,
  routes: [
    { method: 'POST', path: /^\/v1\/chat\/completions$/, answer: answerChat },
    { method: 'POST', path: /^\/v1\/responses$/, answer: answerResponses },
    { method: 'POST', path: /^\/v1\/completions$/, answer: answerCompletions },
    { method: 'POST', path: /^\/v1\/embeddings$/, answer: answerEmbeddings },
    { method: 'POST', path: /^\/v1\/audio\/speech$/, answer: answerSpeech },
    { method: 'POST', path: /^\/v1\/audio\/transcriptions$/, answer: answerTranscription },
    { method: 'POST', path: /^\/v1\/audio\/translations$/, answer: answerTranslation },
    { method: 'POST', path: /^\/v1\/moderations$/, answer: answerModeration },
    { method: 'POST', path: /^\/v1\/rerank$/, answer: answerRerank },
    { method: 'POST', path: /^\/v2\/rerank$/, answer: answerCohereRerank },
    { method: 'POST', path: /^\/v1\/images\/generations$/, answer: answerImages },
    { method: 'POST', path: /^\/v1\/images\/(?:edits|variations)$/, answer: answerImageEdits },
    { method: 'POST', path: /^\/v1\/videos$/, answer: submitVideo },
    { method: 'GET', path: /^\/v1\/videos$/, answer: listVideos },
    { method: 'GET', path: /^\/v1\/videos\/([^/]+)$/, answer: showVideo },
    { method: 'DELETE', path: /^\/v1\/videos\/([^/]+)$/, answer: removeVideo },
    { method: 'GET', path: /^\/v1\/videos\/([^/]+)\/content$/, answer: showFilm },
    { method: 'POST', path: /^\/v1\/videos\/([^/]+)\/remix$/, answer: remixVideo },
    { method: 'GET', path: /^\/v1\/models$/, answer: listModels },
    { method: 'GET', path: /^\/v1\/models\/(.+)$/, answer: showModel },
  ],
  encodeRefusal,
  encodeFailure,
} satisfies Protocol

function bearerOf(headers: IncomingHttpHeaders): string | undefined {
  return /^bearer +(\S+)$/i.exec(headers.authorization ?? '')?.[1]
}

function listModels(): Reply {
  return { kind: 'free', body: JSON.stringify({ object: 'list', data: MODELS.map(describe) }) }
}

function showModel({ params: [id = ''] }: Inquiry): Reply {
  const model = findModel(decode(id))
  if (model === undefined) {
    throw new ProviderError(
      'unknown_model',
      `There is no model \`${decode(id)}\`, or it is not open to you.`,
      'model',
    )
  }
  return { kind: 'free', body: JSON.stringify(describe(model)) }
}

function describe({ id, owner }: Model) {
  return { id, object: 'model', created: RELEASED, owned_by: owner }
}

function decode(component: string): string {
  try {
    return decodeURIComponent(component)
  } catch {
    // An invalid escape: no such model exists, which the caller reports.
    return component
  }
}

const CODES = {
  no_key: null,
  not_local: null,
  unknown_path: null,
  wrong_method: 'method_not_supported',
  unknown_model: 'model_not_found',
  too_large: 'request_too_large',
  bad_json: null,
  missing_field: 'missing_required_parameter',
  wrong_type: 'invalid_type',
  bad_value: 'invalid_value',
  bad_steering: 'invalid_steering',
  broken: null,
} as const satisfies Record<RefusalKind, string | null>

function encodeRefusal({ kind, status, message, field }: ProviderError): string {
  const type = status >= 500 ? 'server_error' : 'invalid_request_error'
  return JSON.stringify({ error: { message, type, param: field, code: CODES[kind] } })
}

/** The error types that clients distinguish; others follow from the status. */
const FAILURES: Readonly<Record<number, { readonly type: string; readonly code: string }>> = {
  401: { type: 'invalid_request_error', code: 'invalid_api_key' },
  404: { type: 'invalid_request_error', code: 'model_not_found' },
  429: { type: 'requests', code: 'rate_limit_exceeded' },
}

function encodeFailure({ status, message, isOutOfQuota = false }: Failure): string {
  const quota = { type: 'insufficient_quota', code: 'insufficient_quota' }
  const other = { type: status >= 500 ? 'server_error' : 'invalid_request_error', code: null }
  const { type, code } = isOutOfQuota ? quota : (FAILURES[status] ?? other)
  return JSON.stringify({ error: { message, type, param: null, code } })
}
