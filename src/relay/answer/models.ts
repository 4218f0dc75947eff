import type { RelayIncoming } from '../../http/relay-exchange.ts'

/** An entry of the model list, in any format. */
type ListedModel = {
  readonly id: string
  readonly ownedBy: string
  readonly endpointTypes: readonly string[]
}

type ListFormat = 'openai' | 'anthropic' | 'both' | 'gemini'

const GEMINI_ONLY = /^\/+v1beta\//

/** The request chooses the format of the list (docs/reference/relay-api.md: Model list). */
export function listFormat({ headers, url = '' }: RelayIncoming): ListFormat {
  if (GEMINI_ONLY.test(url)) return 'gemini'
  const isAnthropic = headers['anthropic-version'] !== undefined
  if (isAnthropic && headers['x-api-key'] !== undefined) return 'anthropic'
  const query = new URLSearchParams(url.split('?')[1] ?? '')
  if (headers['x-goog-api-key'] !== undefined || query.has('key')) return 'gemini'
  return isAnthropic ? 'both' : 'openai'
}

const METHODS = ['generateContent', 'countTokens', 'streamGenerateContent']

type ListEncoder = {
  one(model: ListedModel, created: number): Record<string, unknown>
  many(models: readonly ListedModel[], created: number): Record<string, unknown>
}

const openai: ListEncoder = {
  one: ({ id, ownedBy, endpointTypes }, created) => ({
    id,
    object: 'model',
    created,
    owned_by: ownedBy,
    supported_endpoint_types: endpointTypes,
  }),
  many: (models, created) => ({ object: 'list', data: models.map(model => openai.one(model, created)) }),
}

const anthropic: ListEncoder = {
  one: ({ id }, created) => ({
    type: 'model',
    id,
    display_name: id,
    created_at: new Date(created * 1000).toISOString().replace('.000Z', 'Z'),
  }),
  many: (models, created) => ({
    data: models.map(model => anthropic.one(model, created)),
    first_id: models[0]?.id ?? null,
    last_id: models.at(-1)?.id ?? null,
    has_more: false,
  }),
}

/** Anthropic's SDK sends no `x-api-key` since version 1: the common format, with the fields that this SDK reads. */
const both: ListEncoder = {
  one: (model, created) => ({ ...openai.one(model, created), ...anthropic.one(model, created) }),
  many: (models, created) => ({
    ...openai.many(models, created),
    ...anthropic.many(models, created),
    data: models.map(model => both.one(model, created)),
  }),
}

const gemini: ListEncoder = {
  one: ({ id }) => ({
    name: `models/${id}`,
    baseModelId: id,
    version: '001',
    displayName: id,
    description: '',
    inputTokenLimit: 0,
    outputTokenLimit: 0,
    supportedGenerationMethods: METHODS,
  }),
  many: models => ({ models: models.map(model => gemini.one(model, 0)) }),
}

const LIST_ENCODERS: Readonly<Record<ListFormat, ListEncoder>> = { openai, anthropic, both, gemini }

export const presentModels = (format: ListFormat, models: readonly ListedModel[], created: number) =>
  LIST_ENCODERS[format].many(models, created)
export const presentModel = (format: ListFormat, model: ListedModel, created: number) =>
  LIST_ENCODERS[format].one(model, created)
