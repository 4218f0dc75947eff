/** A request that the simulator is asked when the corpus is written. */
export type SimulatedQuestion = {
  readonly folder: string
  readonly name: string
  readonly about: string
  readonly path: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body: Readonly<Record<string, unknown>>
  readonly vendor?: string
  /** What the gateway must read in the answer. */
  readonly expected?: unknown
}

/** The smallest PNG: one grey pixel. */
const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNoAAAAggCBd81ytgAAAABJRU5ErkJggg=='

const HARBOUR = {
  type: 'object',
  properties: { harbour: { type: 'string' }, hours: { type: 'integer' } },
  required: ['harbour', 'hours'],
}
const BERTH = { type: 'object', properties: { berth: { type: 'integer' } }, required: ['berth'] }
const SHIP = {
  type: 'object',
  properties: { ship: { type: 'string' }, berths: { type: 'array', items: { type: 'integer' } } },
  required: ['ship', 'berths'],
  additionalProperties: false,
}
const SYSTEM = 'You answer for the harbour office of Lindmark, briefly.'
const GREETING = 'When does the night ferry «Ærø» leave? 夜行船は何時ですか 🚢'
const ORDER = 'Call read_tide and read_berth for Lindmark.'
const TIDE = 'high water at 04:12, 3.1 m'
const SHORT = 'sim-words-9'

/** Every way in which the simulator is asked, in the words of one format. */
type Speaker = {
  readonly folder: string
  readonly headers?: Readonly<Record<string, string>>
  path(model: string, isStream: boolean): string
  /** Adds what makes a request one for a stream, where the path does not say it. */
  streamed(body: object): object
  greeting: object
  tools: object
  results: object
  schema: object
  image: object
  /** Absent where the format has no word for it. */
  thinking?: object
  search?: object
  choices?: object
  /** Lets the answer have three tokens. */
  short(body: object): object
  /** A model that takes schemas, where only some do. */
  readonly schemaModel?: string
}

const functionTools = [
  { type: 'function', function: { name: 'read_tide', description: 'The tide', parameters: HARBOUR } },
  { type: 'function', function: { name: 'read_berth', parameters: BERTH } },
]
const asUser = (content: unknown) => [{ role: 'user', content }]

const SPEAKERS: readonly Speaker[] = [
  {
    folder: 'openai-chat',
    path: () => '/v1/chat/completions',
    streamed: body => ({ ...body, stream: true, stream_options: { include_usage: true } }),
    greeting: { messages: [{ role: 'system', content: SYSTEM }, ...asUser(GREETING)], temperature: 0.4 },
    tools: { messages: asUser(ORDER), tools: functionTools, tool_choice: 'required' },
    results: {
      messages: [
        ...asUser(ORDER),
        {
          role: 'assistant',
          content: null,
          tool_calls: [
            {
              id: 'call_tide1',
              type: 'function',
              function: { name: 'read_tide', arguments: '{"harbour":"Lindmark","hours":6}' },
            },
          ],
        },
        { role: 'tool', tool_call_id: 'call_tide1', content: TIDE },
      ],
      tools: functionTools,
    },
    schema: {
      messages: asUser('Which ship lies where?'),
      response_format: { type: 'json_schema', json_schema: { name: 'ship', schema: SHIP, strict: true } },
    },
    image: {
      messages: asUser([
        { type: 'text', text: 'What colour is this buoy?' },
        { type: 'image_url', image_url: { url: `data:image/png;base64,${PIXEL}`, detail: 'low' } },
      ]),
    },
    thinking: { messages: asUser('How many knots are 10 m/s?'), reasoning_effort: 'high' },
    choices: { messages: asUser('Two names for a tug, please.'), n: 2 },
    short: body => ({ ...body, max_completion_tokens: 3 }),
  },
  {
    folder: 'anthropic',
    headers: { 'anthropic-version': '2023-06-01' },
    path: () => '/anthropic/v1/messages',
    streamed: body => ({ ...body, stream: true }),
    greeting: { max_tokens: 400, system: SYSTEM, messages: asUser(GREETING) },
    tools: {
      max_tokens: 400,
      messages: asUser(ORDER),
      tools: [
        { name: 'read_tide', description: 'The tide', input_schema: HARBOUR },
        { name: 'read_berth', input_schema: BERTH },
      ],
      tool_choice: { type: 'any' },
    },
    results: {
      max_tokens: 400,
      messages: [
        ...asUser(ORDER),
        {
          role: 'assistant',
          content: [
            {
              type: 'tool_use',
              id: 'toolu_tide1',
              name: 'read_tide',
              input: { harbour: 'Lindmark', hours: 6 },
            },
          ],
        },
        ...asUser([{ type: 'tool_result', tool_use_id: 'toolu_tide1', content: TIDE }]),
      ],
      tools: [{ name: 'read_tide', description: 'The tide', input_schema: HARBOUR }],
    },
    schema: {
      max_tokens: 400,
      messages: asUser('Which ship lies where?'),
      output_config: { format: { type: 'json_schema', schema: SHIP } },
    },
    image: {
      max_tokens: 400,
      messages: asUser([
        { type: 'image', source: { type: 'base64', media_type: 'image/png', data: PIXEL } },
        { type: 'text', text: 'What colour is this buoy?' },
      ]),
    },
    thinking: {
      max_tokens: 4_000,
      messages: asUser('How many knots are 10 m/s?'),
      thinking: { type: 'enabled', budget_tokens: 2_000 },
    },
    search: {
      max_tokens: 400,
      messages: asUser('Is the lock at Lindmark open today?'),
      tools: [{ type: 'web_search_20250305', name: 'web_search', max_uses: 2 }],
    },
    short: body => ({ ...body, max_tokens: 3 }),
    schemaModel: 'claude-sonnet-4-5',
  },
  {
    folder: 'responses',
    path: () => '/v1/responses',
    streamed: body => ({ ...body, stream: true }),
    greeting: { instructions: SYSTEM, input: GREETING, store: false },
    tools: {
      input: ORDER,
      store: false,
      tools: [
        {
          type: 'function',
          name: 'read_tide',
          description: 'The tide',
          parameters: HARBOUR,
          strict: false,
        },
        { type: 'function', name: 'read_berth', parameters: BERTH, strict: false },
      ],
      tool_choice: 'required',
    },
    results: {
      store: false,
      input: [
        { role: 'user', content: ORDER },
        {
          type: 'function_call',
          call_id: 'call_tide1',
          name: 'read_tide',
          arguments: '{"harbour":"Lindmark","hours":6}',
        },
        { type: 'function_call_output', call_id: 'call_tide1', output: TIDE },
      ],
      tools: [{ type: 'function', name: 'read_tide', parameters: HARBOUR, strict: false }],
    },
    schema: {
      store: false,
      input: 'Which ship lies where?',
      text: { format: { type: 'json_schema', name: 'ship', schema: SHIP, strict: true } },
    },
    image: {
      store: false,
      input: [
        {
          role: 'user',
          content: [
            { type: 'input_text', text: 'What colour is this buoy?' },
            { type: 'input_image', image_url: `data:image/png;base64,${PIXEL}`, detail: 'low' },
          ],
        },
      ],
    },
    thinking: {
      store: false,
      input: 'How many knots are 10 m/s?',
      reasoning: { effort: 'high', summary: 'auto' },
      include: ['reasoning.encrypted_content'],
    },
    search: {
      store: false,
      input: 'Is the lock at Lindmark open today?',
      tools: [{ type: 'web_search' }],
    },
    short: body => ({ ...body, max_output_tokens: 3 }),
  },
  {
    folder: 'gemini',
    path: (model, isStream) =>
      `/v1beta/models/${model}:${isStream ? 'streamGenerateContent?alt=sse' : 'generateContent'}`,
    headers: { 'x-goog-api-key': 'corpus-key' },
    streamed: body => body,
    greeting: {
      systemInstruction: { parts: [{ text: SYSTEM }] },
      contents: [{ role: 'user', parts: [{ text: GREETING }] }],
      generationConfig: { temperature: 0.4 },
    },
    tools: {
      contents: [{ role: 'user', parts: [{ text: ORDER }] }],
      tools: [
        {
          functionDeclarations: [
            { name: 'read_tide', description: 'The tide', parametersJsonSchema: HARBOUR },
            { name: 'read_berth', parametersJsonSchema: BERTH },
          ],
        },
      ],
      toolConfig: { functionCallingConfig: { mode: 'ANY' } },
    },
    results: {
      contents: [
        { role: 'user', parts: [{ text: ORDER }] },
        {
          role: 'model',
          parts: [
            {
              functionCall: { id: 'tide1', name: 'read_tide', args: { harbour: 'Lindmark', hours: 6 } },
              thoughtSignature: 'c2lnbmF0dXJl',
            },
          ],
        },
        {
          role: 'user',
          parts: [{ functionResponse: { id: 'tide1', name: 'read_tide', response: { result: TIDE } } }],
        },
      ],
      tools: [{ functionDeclarations: [{ name: 'read_tide', parametersJsonSchema: HARBOUR }] }],
    },
    schema: {
      contents: [{ role: 'user', parts: [{ text: 'Which ship lies where?' }] }],
      generationConfig: { responseMimeType: 'application/json', responseJsonSchema: SHIP },
    },
    image: {
      contents: [
        {
          role: 'user',
          parts: [
            { text: 'What colour is this buoy?' },
            { inlineData: { mimeType: 'image/png', data: PIXEL } },
          ],
        },
      ],
    },
    thinking: {
      contents: [{ role: 'user', parts: [{ text: 'How many knots are 10 m/s?' }] }],
      generationConfig: { thinkingConfig: { thinkingBudget: 2_000, includeThoughts: true } },
    },
    short: body => ({ ...body, generationConfig: { maxOutputTokens: 3 } }),
  },
  {
    folder: 'bedrock',
    path: (model, isStream) => `/bedrock/model/${model}/converse${isStream ? '-stream' : ''}`,
    streamed: body => body,
    greeting: { system: [{ text: SYSTEM }], messages: asUser([{ text: GREETING }]) },
    tools: {
      messages: asUser([{ text: ORDER }]),
      toolConfig: {
        tools: [
          { toolSpec: { name: 'read_tide', description: 'The tide', inputSchema: { json: HARBOUR } } },
          { toolSpec: { name: 'read_berth', inputSchema: { json: BERTH } } },
        ],
        toolChoice: { any: {} },
      },
    },
    results: {
      messages: [
        ...asUser([{ text: ORDER }]),
        {
          role: 'assistant',
          content: [
            {
              toolUse: {
                toolUseId: 'tooluse_tide1',
                name: 'read_tide',
                input: { harbour: 'Lindmark', hours: 6 },
              },
            },
          ],
        },
        ...asUser([{ toolResult: { toolUseId: 'tooluse_tide1', content: [{ text: TIDE }] } }]),
      ],
      toolConfig: { tools: [{ toolSpec: { name: 'read_tide', inputSchema: { json: HARBOUR } } }] },
    },
    schema: { messages: asUser([{ text: 'Name a ship and its berths as JSON.' }]) },
    image: {
      messages: asUser([
        { image: { format: 'png', source: { bytes: PIXEL } } },
        { text: 'What colour is this buoy?' },
      ]),
    },
    thinking: {
      messages: asUser([{ text: 'How many knots are 10 m/s?' }]),
      inferenceConfig: { maxTokens: 4_000 },
      additionalModelRequestFields: { thinking: { type: 'enabled', budget_tokens: 2_000 } },
    },
    short: body => ({ ...body, inferenceConfig: { maxTokens: 3 } }),
  },
  {
    folder: 'cohere',
    path: () => '/cohere/v2/chat',
    streamed: body => ({ ...body, stream: true }),
    greeting: { messages: [{ role: 'system', content: SYSTEM }, ...asUser(GREETING)] },
    tools: { messages: asUser(ORDER), tools: functionTools, tool_choice: 'REQUIRED' },
    results: {
      messages: [
        ...asUser(ORDER),
        {
          role: 'assistant',
          tool_calls: [
            {
              id: 'read_tide_1',
              type: 'function',
              function: { name: 'read_tide', arguments: '{"harbour":"Lindmark","hours":6}' },
            },
          ],
        },
        { role: 'tool', tool_call_id: 'read_tide_1', content: TIDE },
      ],
      tools: functionTools,
    },
    schema: {
      messages: asUser('Which ship lies where?'),
      response_format: { type: 'json_object', schema: SHIP },
    },
    image: {
      messages: asUser([
        { type: 'text', text: 'What colour is this buoy?' },
        { type: 'image_url', image_url: { url: `data:image/png;base64,${PIXEL}` } },
      ]),
    },
    thinking: { messages: asUser('How many knots are 10 m/s?'), thinking: { type: 'enabled' } },
    short: body => ({ ...body, max_tokens: 3 }),
  },
  {
    folder: 'ollama',
    path: () => '/ollama/api/chat',
    streamed: body => ({ ...body, stream: true }),
    greeting: { messages: [{ role: 'system', content: SYSTEM }, ...asUser(GREETING)], stream: false },
    tools: { messages: asUser(ORDER), tools: functionTools, stream: false },
    results: {
      stream: false,
      messages: [
        ...asUser(ORDER),
        {
          role: 'assistant',
          content: '',
          tool_calls: [{ function: { name: 'read_tide', arguments: { harbour: 'Lindmark', hours: 6 } } }],
        },
        { role: 'tool', tool_name: 'read_tide', content: TIDE },
      ],
      tools: functionTools,
    },
    schema: { messages: asUser('Which ship lies where?'), format: SHIP, stream: false },
    image: {
      messages: [{ role: 'user', content: 'What colour is this buoy?', images: [PIXEL] }],
      stream: false,
    },
    thinking: { messages: asUser('How many knots are 10 m/s?'), think: true, stream: false },
    short: body => ({ ...body, options: { num_predict: 3 } }),
  },
]

/** Kinds of failure, by the fault that makes the simulator answer with one. */
const FAILURES = [
  ['status-400', 'A request that the vendor refuses.'],
  ['status-401', 'A wrong key.'],
  ['status-403', 'A key without the permission.'],
  ['status-404', 'A model that the vendor does not have.'],
  ['status-413', 'A request that is too large.'],
  ['status-429', 'Too many requests.'],
  ['status-429-quota', 'An account that is used up.'],
  ['status-500', 'A failure of the vendor.'],
  ['status-503', 'A vendor that is overloaded.'],
] as const

function questionsFor(speaker: Speaker): readonly SimulatedQuestion[] {
  const { folder, path, streamed, short, headers = {}, schemaModel = 'sim-small' } = speaker
  const whole = (name: string, about: string, body: object, model = 'sim-small'): SimulatedQuestion => ({
    folder,
    name,
    about,
    headers,
    path: path(model, false),
    body: isInPath(folder) ? { ...body } : { model, ...body },
  })
  const stream = (name: string, about: string, body: object, model = SHORT): SimulatedQuestion => ({
    folder,
    name: `${name}-stream`,
    about,
    headers,
    path: path(model, true),
    body: isInPath(folder) ? { ...streamed(body) } : { model, ...streamed(body) },
  })
  return [
    whole('greeting', 'A system prompt and a question in three scripts.', speaker.greeting),
    stream('greeting', 'The same as a stream.', speaker.greeting),
    whole('tools', 'Two tools called at once.', speaker.tools),
    stream('tools', 'Two tools called at once, as a stream.', speaker.tools, 'sim-small'),
    whole('results', "The answer to a tool's result.", speaker.results),
    stream('results', "The answer to a tool's result, as a stream.", speaker.results),
    whole('schema', 'An answer held to a schema.', speaker.schema, schemaModel),
    stream('schema', 'An answer held to a schema, as a stream.', speaker.schema, schemaModel),
    whole('image', 'A question about an image.', speaker.image),
    whole('length', 'An answer cut by its limit.', short(speaker.greeting)),
    stream('length', 'A stream cut by its limit.', short(speaker.greeting)),
    ...(speaker.thinking
      ? [
          whole('thinking', 'Thoughts before the answer.', speaker.thinking),
          stream('thinking', 'Thoughts before the answer, as a stream.', speaker.thinking),
        ]
      : []),
    ...(speaker.search
      ? [
          whole('search', 'Searches that the vendor ran itself.', speaker.search, 'sim-searches-2-words-9'),
          stream(
            'search',
            'Searches that the vendor ran itself, as a stream.',
            speaker.search,
            'sim-searches-2-words-9',
          ),
        ]
      : []),
    ...(speaker.choices
      ? [
          whole('choices', 'Two answers to one question.', speaker.choices),
          stream('choices', 'Two answers to one question, as a stream.', speaker.choices),
        ]
      : []),
    ...FAILURES.map(([fault, about]) =>
      whole(`error-${fault.replace('status-', '')}`, about, speaker.greeting, `sim-${fault}`),
    ),
    stream('error', 'A failure in the middle of a stream.', speaker.greeting, 'sim-words-9-error-in-stream'),
  ]
}

/** Formats whose address names the model; their bodies have none. */
const isInPath = (folder: string) => folder === 'gemini' || folder === 'bedrock'

const MEDIA: readonly SimulatedQuestion[] = [
  {
    folder: 'openai-completions',
    name: 'text',
    about: 'A completion of two prompts.',
    path: '/v1/completions',
    body: { model: SHORT, prompt: ['Once a ferry', 'Twice a tug'], max_tokens: 20 },
  },
  {
    folder: 'openai-completions',
    name: 'text-stream',
    about: 'A completion as a stream.',
    path: '/v1/completions',
    body: {
      model: SHORT,
      prompt: 'Once a ferry',
      stream: true,
      stream_options: { include_usage: true },
    },
  },
  {
    folder: 'embeddings',
    name: 'texts',
    about: 'Vectors of three texts.',
    path: '/v1/embeddings',
    body: { model: 'sim-embed', input: ['ferry', 'tug boat', 'a buoy in the fog'], dimensions: 8 },
    expected: { tokens: 8 },
  },
  {
    folder: 'embeddings',
    name: 'base64',
    about: 'A vector in base64.',
    path: '/v1/embeddings',
    body: { model: 'sim-embed', input: 'ferry', dimensions: 8, encoding_format: 'base64' },
    expected: { tokens: 1 },
  },
  {
    folder: 'images',
    name: 'inline',
    about: 'Two pictures inside the answer, with their usage.',
    path: '/v1/images/generations',
    body: { model: 'gpt-image-1', prompt: 'A ferry in fog', n: 2 },
    expected: { count: 2, imageProperties: { quality: 'high' }, usage: { input: 4, imageOutput: 544 } },
  },
  {
    folder: 'images',
    name: 'address',
    about: 'A picture by its address, without usage.',
    path: '/v1/images/generations',
    body: { model: 'dall-e-3', prompt: 'A ferry in fog' },
    expected: { count: 1 },
  },
  {
    folder: 'images',
    name: 'inline-stream',
    about: 'A picture as a stream.',
    path: '/v1/images/generations',
    body: { model: 'gpt-image-1', prompt: 'A ferry in fog', stream: true, partial_images: 1 },
    expected: { input: 4 },
  },
  {
    folder: 'moderation',
    name: 'texts',
    about: 'Two texts, one result each.',
    path: '/v1/moderations',
    body: { model: 'omni-moderation-latest', input: ['The ferry is late.', 'I will hit the tug.'] },
    expected: { results: [{ categories: { violence: false } }, {}] },
  },
  {
    folder: 'rerank',
    name: 'cohere',
    about: 'Documents ranked in the format of Cohere.',
    path: '/v2/rerank',
    body: { model: 'sim-rank', query: 'night ferry', documents: ['a tug', 'the night ferry', 'a buoy'] },
    expected: { ranked: [{ index: 1 }], searches: 1 },
  },
  {
    folder: 'rerank',
    name: 'voyage',
    about: 'Documents ranked in the format of Voyage.',
    path: '/voyage/v1/rerank',
    body: { model: 'sim-rank', query: 'night ferry', documents: ['a tug', 'the night ferry', 'a buoy'] },
    vendor: 'voyage',
    expected: { ranked: [{ index: 1 }] },
  },
]

export const QUESTIONS: readonly SimulatedQuestion[] = [...SPEAKERS.flatMap(questionsFor), ...MEDIA]
