import { isObject, textOf, type WireObject } from '../json.ts'
import { ProviderError } from '../provider-error.ts'
import { countTokens } from '../tokens.ts'
import { vectorOf } from '../vector.ts'
import { answerMessages, anthropic } from './anthropic.ts'
import type { Inquiry, Protocol, Reply } from './format.ts'
import { answerStream, answerWhole, gemini } from './gemini.ts'
import { parse } from './gemini-request.ts'
import { decodeCount } from './openai-request.ts'
import { inHeader, schemeKey } from './vendor.ts'

const PLACE = '^/vertex/v1/(?:projects/[^/]+/locations/[^/]+/)?publishers'
const method = (publisher: string, name: string) =>
  new RegExp(`${PLACE}/${publisher}/models/([^/:]+):${name}$`)

const TOKEN = 'ya29.sim-'
const GRANT = 'urn:ietf:params:oauth:grant-type:jwt-bearer'
const SCOPE = 'https://www.googleapis.com/auth/cloud-platform'
const VERSION = 'vertex-2023-10-16'
const DIMENSIONS = 768
const USUAL_LIFE_S = 3_599

const bearer = schemeKey('Bearer')
const apiKey = inHeader('x-goog-api-key')

/** A token that was issued here, or an API key. */
function keyOf(headers: Inquiry['headers']): string | undefined {
  const token = bearer(headers)
  return token?.startsWith(TOKEN) ? token : apiKey(headers)
}

// --- Tokens -------------------------------------------------------------------------------------------------------

function claimsOf(assertion: string): WireObject {
  const [head = '', claims = '', signature = ''] = assertion.split('.')
  const read = (part: string): WireObject => {
    const value: unknown = JSON.parse(Buffer.from(part, 'base64url').toString('utf8'))
    return isObject(value) ? value : {}
  }
  if (read(head).alg !== 'RS256' || signature.length < 40) throw new Error('no proof')
  return read(claims)
}

/** Issues a token. The assertion is required but not verified; the account names `refused…` and `short…` are special. */
function issueToken({ body, time, id }: Inquiry): Reply {
  const form = new URLSearchParams(body)
  try {
    const { iss, scope, aud, exp } = claimsOf(form.get('assertion') ?? '')
    const account = textOf(iss) ?? ''
    const isGood =
      form.get('grant_type') === GRANT &&
      textOf(scope)?.includes(SCOPE) === true &&
      textOf(aud)?.endsWith('/vertex/token') === true &&
      Number(exp) * 1000 > time.getTime()
    if (!isGood || account.startsWith('refused')) throw new Error('refused')
    const expires_in = account.startsWith('short') ? 1 : USUAL_LIFE_S
    const access_token = `${TOKEN}${id}`
    return { kind: 'free', body: JSON.stringify({ access_token, expires_in, token_type: 'Bearer' }) }
  } catch {
    throw new ProviderError('bad_value', 'Invalid JWT Signature.')
  }
}

/** The token endpoint of service accounts. */
export const googleTokens = {
  name: 'Google’s tokens',
  keyOf: () => 'none',
  routes: [{ method: 'POST', path: /^\/vertex\/token$/, answer: issueToken }],
  encodeRefusal: ({ message }) => JSON.stringify({ error: 'invalid_grant', error_description: message }),
  encodeFailure: ({ message }) => JSON.stringify({ error: 'internal_failure', error_description: message }),
} satisfies Protocol

// --- Gemini -------------------------------------------------------------------------------------------------------

/** Rules that the vendor's other API does not have. */
const withStrictKeys =
  (answer: (inquiry: Inquiry) => Reply) =>
  (inquiry: Inquiry): Reply => {
    const { contents } = parse(inquiry.body)
    const turns = Array.isArray(contents) ? contents.filter(isObject) : []
    if (turns.some(({ role }) => role !== 'user' && role !== 'model'))
      throw new ProviderError('bad_value', 'Please use a valid role: user, model.', 'contents')
    return answer(inquiry)
  }

function predict({ id, body, params: [model = ''] }: Inquiry): Reply {
  const { instances, parameters } = parse(body)
  const texts = (Array.isArray(instances) ? instances : []).map(each => textOf(each?.content) ?? '')
  if (texts.length === 0 || texts.includes('')) throw new ProviderError('missing_field', 'empty', 'instances')
  if (texts.length > 1 && model.startsWith('gemini-'))
    throw new ProviderError('bad_value', 'this model supports only one instance', 'instances')
  const embeddingParameters = isObject(parameters) ? parameters : {}
  const dimensions = decodeCount(embeddingParameters, 'outputDimensionality', DIMENSIONS) ?? DIMENSIONS
  const predictions = texts.map(text => ({
    embeddings: {
      values: [...vectorOf(text, dimensions)],
      statistics: { token_count: countTokens(text), truncated: false },
    },
  }))
  const promptTokens = texts.reduce((sum, text) => sum + countTokens(text), 0)
  const bill = { id, model, promptTokens }
  return { kind: 'whole', body: JSON.stringify({ predictions }), tokens: 0, bill }
}

export const vertexGemini = {
  ...gemini,
  name: 'Gemini on Vertex',
  keyOf,
  routes: [
    { method: 'POST', path: method('google', 'generateContent'), answer: withStrictKeys(answerWhole) },
    { method: 'POST', path: method('google', 'streamGenerateContent'), answer: withStrictKeys(answerStream) },
    { method: 'POST', path: method('google', 'predict'), answer: predict },
  ],
} satisfies Protocol

// --- Claude -------------------------------------------------------------------------------------------------------

const messages =
  (isStream: boolean) =>
  (inquiry: Inquiry): Reply => {
    const { model, anthropic_version, ...request } = parse(inquiry.body)
    if (model !== undefined)
      throw new ProviderError('bad_value', 'model: Extra inputs are not permitted', 'model')
    if (anthropic_version !== VERSION)
      throw new ProviderError('missing_field', 'anthropic_version: Field required', 'anthropic_version')
    const body = JSON.stringify({
      ...request,
      model: decodeURIComponent(inquiry.params[0] ?? ''),
      stream: isStream,
    })
    return answerMessages({ ...inquiry, body, headers: { ...inquiry.headers, 'anthropic-version': VERSION } })
  }

export const vertexClaude = {
  ...anthropic,
  name: 'Claude on Vertex',
  keyOf,
  routes: [
    { method: 'POST', path: method('anthropic', 'rawPredict'), answer: messages(false) },
    { method: 'POST', path: method('anthropic', 'streamRawPredict'), answer: messages(true) },
  ],
} satisfies Protocol
