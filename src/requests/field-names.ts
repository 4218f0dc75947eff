/**
 * The names of request members that decide about money or permissions. A member is accepted in its own spelling only, and
 * once. Servers read names differently: some ignore case, some use the first of a repeated name and some the last, some
 * accept camel case for snake case. A request that two servers could read differently is refused (docs/requests.md).
 */

/** Fields by what they decide, in the spelling of most formats. */
export const DECISIVE = {
  model: ['model', 'model_name', 'model_id', 'req_key'],
  outputLimit: [
    'max_tokens',
    'max_completion_tokens',
    'max_output_tokens',
    'max_new_tokens',
    'max_tokens_to_sample',
    'num_predict',
    // llama.cpp, which prefers it to all others.
    'n_predict',
  ],
  choices: [
    'n',
    'best_of',
    'candidate_count',
    'num_return_sequences',
    'n_cmpl',
    'num_images',
    'number_of_images',
    'batch_size',
    'num_outputs',
    'sample_count',
    'max_images',
    'sequential_image_generation',
    'num_videos',
    'number_of_videos',
  ],
  reasoningBudget: [
    'thinking',
    'thinking_config',
    'thinking_budget',
    'budget_tokens',
    'reasoning',
    'generation_config',
  ],
  delivery: ['stream', 'stream_options', 'include_usage', 'stream_format', 'background', 'deferred'],
  service: ['service_tier', 'speed', 'inference_geo', 'cache_control', 'ttl'],
  media: [
    'size',
    'image_size',
    'video_size',
    'quality',
    'quality_level',
    'resolution',
    'video_resolution',
    'media_resolution',
    'width',
    'height',
    'ratio',
    'aspect_ratio',
    'duration',
    'seconds',
    'duration_seconds',
    'video_length',
    'fps',
    'frames',
    'num_frames',
    'frame_num',
    'mode',
    'sound',
    'audio',
    'generate_audio',
    'enable_audio',
    'with_audio',
    'modalities',
    'response_modalities',
    'metadata',
    'settings',
  ],
  tools: [
    'tools',
    'tool_choice',
    'tool_config',
    'functions',
    'function',
    'function_declarations',
    'type',
    'max_uses',
    'max_tool_calls',
    'max_results',
    'search_context_size',
    'google_search',
    'google_search_retrieval',
    'google_maps',
    'url_context',
    'code_execution',
    'container',
  ],
  /** Each requests a tool that the provider runs (requests/provider-tools.ts). */
  toolMembers: [
    'web_search_options',
    'web_search',
    'enable_search',
    'enable_enhancement',
    'force_search_enhancement',
    'search_parameters',
    'connectors',
    'plugins',
    'mcp_servers',
  ],
  prompt: [
    'messages',
    'input',
    'contents',
    'content',
    'parts',
    'prompt',
    'system',
    'system_instruction',
    'instructions',
    'prediction',
    'query',
    'documents',
    'requests',
    'generate_content_request',
    'text',
    'image_url',
    'input_audio',
    'audio_url',
    'video_url',
    'file',
    'file_id',
    'file_uri',
    'file_url',
    'file_data',
    'inline_data',
    'mime_type',
    'source',
    'data',
    'url',
  ],
  storedInput: ['previous_response_id', 'conversation', 'cached_content', 'thread'],
} as const satisfies Readonly<Record<string, readonly string[]>>

/**
 * Fields of routers and proxies that choose another model, host or account than the routed and billed one. They are
 * top-level members, and are removed. A channel may forward those whose models have a price
 * (`setting.allow_routing_fields`).
 */
export const ROUTING = {
  /** Fields that name the models to choose from. */
  naming: ['models', 'fallbacks', 'fallback_models', 'context_window_fallbacks', 'content_policy_fallbacks'],
  /** Fields that choose among hosts of a named model. */
  hosts: ['route', 'provider'],
  /** Fields whose effect has no price: no channel forwards them. */
  unpriced: [
    'preset',
    // Groq: the models behind `compound`.
    'compound_custom',
    'provider_options',
    'routing',
    'model_list',
    'model_group',
    'mock_response',
    'mock_testing_fallbacks',
    'custom_llm_provider',
    'specific_deployment',
    'deployment_id',
    'litellm_params',
    'user_config',
    'api_base',
    'base_url',
    'api_key',
    'api_version',
    'extra_headers',
    'extra_query',
  ],
} as const satisfies Readonly<Record<string, readonly string[]>>

export const ROUTING_FIELDS: readonly string[] = Object.values(ROUTING).flat()

/** Objects that servers merge into the body around them: they must not contain decisive fields. */
const WRAPPERS = ['extra_body', 'options', 'google'] as const

/** Frequent names that decide nothing, listed so that they need no comparison with all others. */
const PLAIN = [
  ...['role', 'name', 'id', 'user', 'store', 'stop', 'seed', 'voice', 'top_p', 'top_k', 'top_n', 'min_p'],
  ...['temperature', 'presence_penalty', 'frequency_penalty', 'repetition_penalty', 'logit_bias', 'logprobs'],
  ...['top_logprobs', 'response_format', 'json_schema', 'parallel_tool_calls', 'tool_calls', 'tool_call_id'],
  ...[
    'function_call',
    'function_response',
    'description',
    'parameters',
    'input_schema',
    'strict',
    'arguments',
  ],
  ...['reasoning_effort', 'reasoning_content', 'effort', 'summary', 'stop_sequences', 'detail', 'media_type'],
  ...['prompt_cache_key', 'safety_identifier', 'encoding_format', 'dimensions', 'include', 'truncation'],
  ...[
    'output',
    'call_id',
    'status',
    'annotations',
    'signature',
    'tool_use_id',
    'is_error',
    'title',
    'context',
  ],
  ...['citations', 'args', 'response', 'safety_settings', 'function_calling_config', 'format', 'language'],
  ...[
    'return_documents',
    'include_thoughts',
    'thought_signature',
    'thought',
    'response_mime_type',
    'output_config',
  ],
] as const

/** Decisive fields whose objects contain the client's own data: any name is allowed there. */
const CLIENT_DATA: ReadonlySet<string> = new Set(['metadata', 'documents', 'query', 'data'])

/** Other objects whose members are fields too. All objects not listed contain the client's own data. */
const FIELD_OBJECTS: ReadonlySet<string> = new Set([
  ...Object.values(DECISIVE).flat(),
  ...ROUTING_FIELDS,
  ...['output', 'output_config', 'response_format', 'tool_calls', 'function_call', 'function_response'],
  ...['function_calling_config', 'summary'],
])

const isFieldObject = (name: string) => FIELD_OBJECTS.has(name) && !CLIENT_DATA.has(name)

/** Only lists of these names are checked: an object of the same name contains the arguments of a call. */
const FIELD_LISTS: ReadonlySet<string> = new Set(['input', 'output'])

/** Read in both spellings in every format (relay/operations/services.ts, metering/prompt-size.ts). */
const EITHER_EVERYWHERE: ReadonlySet<string> = new Set([
  'service_tier',
  'mime_type',
  'inline_data',
  'file_data',
])

/** The spelling of a format: snake case, or as in Google's also camel case, but never both at once. */
export type Spelling = 'snake' | 'either'

/** The facts of a member, by its exact name. */
export type KnownName = {
  /** Whether its value contains fields: always, never, or if it is a list. */
  readonly isWalked: boolean | 'list'
  readonly isWrapper: boolean
  /** The other accepted spelling. */
  readonly twin: string | undefined
}

const camelOf = (name: string) => name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())

/** Every accepted spelling of these names. */
export const spellingsOf = (names: readonly string[]): readonly string[] => [
  ...new Set(names.flatMap(name => [name, camelOf(name)])),
]

/** A model is accepted in one spelling only: the gateway sets it, and another spelling must not stand beside it. */
const ONE_SPELLING: ReadonlySet<string> = new Set(DECISIVE.model)

function knownNames(spelling: Spelling): ReadonlyMap<string, KnownName> {
  const byName = new Map<string, KnownName>()
  const wrappers: ReadonlySet<string> = new Set(WRAPPERS)
  for (const name of [...Object.values(DECISIVE).flat(), ...ROUTING_FIELDS, ...WRAPPERS, ...PLAIN]) {
    const isEither = spelling === 'either' ? !ONE_SPELLING.has(name) : EITHER_EVERYWHERE.has(name)
    const camel = isEither ? camelOf(name) : name
    const about = {
      isWalked: FIELD_LISTS.has(name) ? ('list' as const) : isFieldObject(name),
      isWrapper: wrappers.has(name),
    }
    byName.set(name, { ...about, twin: camel === name ? undefined : camel })
    if (camel !== name) byName.set(camel, { ...about, twin: name })
  }
  return byName
}

/** The known names, by the spelling of a format. */
export const KNOWN_NAMES: Readonly<Record<Spelling, ReadonlyMap<string, KnownName>>> = {
  snake: knownNames('snake'),
  either: knownNames('either'),
}

/**
 * A name as the most lenient reader sees it: without case by any Unicode mapping (`ſ` is an s, the Kelvin sign a k),
 * full-width letters as plain ones, up to a NUL, and without dashes, underscores and spaces, which some readers ignore.
 */
export function foldName(name: string): string {
  if (PLAIN_ASCII.test(name)) return name.replaceAll('_', '')
  const end = name.indexOf('\0')
  return (end < 0 ? name : name.slice(0, end))
    .normalize('NFKC')
    .toLowerCase()
    .toUpperCase()
    .toLowerCase()
    .replace(/[^\p{L}\p{N}]/gu, '')
}

const PLAIN_ASCII = /^[a-z0-9_]+$/

const folds = (names: readonly string[]) => new Map(names.map(name => [foldName(name), name]))

/** Decisive fields by folded name, to recognize other spellings of them. */
export const DECISIVE_FOLDS: ReadonlyMap<string, string> = folds([
  ...Object.values(DECISIVE).flat(),
  ...ROUTING_FIELDS,
  ...WRAPPERS,
])

/**
 * Fields that no wrapper may contain, by folded name. Thinking budgets are allowed: Google's compatible host reads them
 * there.
 */
const FORBIDDEN = [
  ...DECISIVE.model,
  ...DECISIVE.outputLimit,
  ...DECISIVE.choices,
  ...DECISIVE.delivery,
  ...DECISIVE.storedInput,
  ...DECISIVE.toolMembers,
  ...ROUTING_FIELDS,
  ...['service_tier', 'speed', 'inference_geo', 'messages', 'input', 'prompt', 'tools', 'functions'],
]
export const FORBIDDEN_IN_WRAPPERS: ReadonlyMap<string, string> = folds([...FORBIDDEN, 'quality'])

/** The same for videos, whose vendors' own fields may have any names inside. */
export const FORBIDDEN_IN_VIDEO_WRAPPERS: ReadonlyMap<string, string> = folds(FORBIDDEN)
