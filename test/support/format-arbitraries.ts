import type {
  ChatAnswer,
  ChatRequest,
  Choice,
  Citation,
  Message,
  Part,
  Reasoning,
  ReasoningPart,
  Tool,
  ToolCallPart,
  ToolResultPart,
} from '../../src/chat/hub/hub.ts'
import { EMPTY } from '../../src/domain/usage.ts'
import { fc } from './properties.ts'

/**
 * Requests and responses of clients and vendors, in the hub's canonical form: reasoning before text, text
 * before calls, alternating roles.
 */

/** With letters at both ends, because some formats trim blanks there. */
const text = fc.string({ unit: 'grapheme', maxLength: 12 }).map(inner => `a${inner}z`)
const name = fc.stringMatching(/^[a-z][a-zA-Z0-9_-]{0,12}$/)
const id = fc.stringMatching(/^[a-zA-Z0-9_-]{4,12}$/)
const base64 = fc
  .uint8Array({ minLength: 1, maxLength: 9 })
  .map(bytes => Buffer.from(bytes).toString('base64'))
/** `fc.webUrl()` takes a second to construct. */
const url = fc
  .tuple(fc.constantFrom('http', 'https'), name, fc.array(text, { maxLength: 3 }), fc.option(text))
  .map(
    ([scheme, host, path, query]) =>
      `${scheme}://${host.toLowerCase()}.example/${path.map(encodeURIComponent).join('/')}${query === null ? '' : `?q=${encodeURIComponent(query)}`}`,
  )
const json = fc.dictionary(name, fc.oneof(text, fc.integer(), fc.boolean()), { maxKeys: 3 })

/** Optional fields, by name; an absent one is not a member. */
const record = <T>(fields: { [K in keyof T]: fc.Arbitrary<T[K]> }, required: readonly (keyof T)[]) =>
  fc.record(fields, { requiredKeys: [...required] as never }) as unknown as fc.Arbitrary<T>

const textPart: fc.Arbitrary<Part> = fc.oneof(
  { weight: 15, arbitrary: fc.record({ type: fc.constant('text' as const), text }) },
  {
    weight: 1,
    arbitrary: fc.record({
      type: fc.constant('text' as const),
      text,
      cache: fc.constantFrom({}, { ttl: '1h' }),
    }),
  },
)

const media: fc.Arbitrary<Part> = fc.oneof(
  fc.record({
    type: fc.constant('media' as const),
    kind: fc.constant('image' as const),
    source: fc.record({ data: base64 }),
    mediaType: fc.constantFrom('image/png', 'image/jpeg'),
  }),
  fc.record({
    type: fc.constant('media' as const),
    kind: fc.constant('image' as const),
    source: fc.record({ url }),
  }),
  fc.record({
    type: fc.constant('media' as const),
    kind: fc.constant('file' as const),
    source: fc.record({ data: base64 }),
    mediaType: fc.constant('application/pdf'),
    name,
  }),
  fc.record({
    type: fc.constant('media' as const),
    kind: fc.constant('audio' as const),
    source: fc.record({ data: base64 }),
    mediaType: fc.constantFrom('audio/wav', 'audio/mpeg'),
  }),
)

const reasoning: fc.Arbitrary<ReasoningPart> = fc.oneof(
  fc.record({
    type: fc.constant('reasoning' as const),
    text,
    signature: fc.record({ format: fc.constantFrom('anthropic', 'gemini'), value: base64 }),
  }),
  fc.record({
    type: fc.constant('reasoning' as const),
    text: fc.constant(''),
    encrypted: fc.record({ format: fc.constant('anthropic'), value: base64 }),
  }),
)

const plainReasoning: fc.Arbitrary<readonly ReasoningPart[]> = fc.oneof(
  fc.array(reasoning, { maxLength: 2 }),
  fc.tuple(fc.record({ type: fc.constant('reasoning' as const), text })),
)

const toolCall: fc.Arbitrary<ToolCallPart> = fc.record({
  type: fc.constant('toolCall' as const),
  id,
  name,
  arguments: json.map(value => JSON.stringify(value)),
})

const signedCall: fc.Arbitrary<ToolCallPart> = fc.record({
  type: fc.constant('toolCall' as const),
  id,
  name,
  arguments: json.map(value => JSON.stringify(value)),
  signature: fc.record({ format: fc.constant('gemini'), value: base64 }),
})

const resultOf = (callId: string): fc.Arbitrary<ToolResultPart> =>
  fc
    .tuple(
      fc.array(fc.oneof({ weight: 5, arbitrary: textPart }, { weight: 1, arbitrary: media }), {
        maxLength: 2,
      }),
      fc.integer({ max: 6, min: 0 }).map(chance => chance === 0),
    )
    .map(([content, isError]) => ({ type: 'toolResult', callId, content, ...(isError && { isError }) }))

/** A user turn, and possibly an assistant turn after it, with calls and their results. */
const turn: fc.Arbitrary<readonly Message[]> = fc
  .record({
    said: fc.array(fc.oneof({ weight: 4, arbitrary: textPart }, { weight: 1, arbitrary: media }), {
      minLength: 1,
      maxLength: 3,
    }),
    thoughts: fc.oneof({ weight: 6, arbitrary: fc.constant([]) }, { weight: 1, arbitrary: plainReasoning }),
    answer: text,
    calls: fc.uniqueArray(toolCall, { maxLength: 2, selector: call => call.id }),
  })
  .chain(({ said: userParts, thoughts, answer, calls }) =>
    fc.tuple(...calls.map(call => resultOf(call.id))).map(results => {
      const content: readonly Part[] = [...thoughts, { type: 'text', text: answer }, ...calls]
      const messages: readonly Message[] = [
        { role: 'user', content: userParts },
        { role: 'assistant', content },
      ]
      return results.length === 0 ? messages : [...messages, { role: 'tool', content: results } as Message]
    }),
  )

const messages: fc.Arbitrary<readonly Message[]> = fc
  .tuple(
    fc.option(fc.tuple(fc.constantFrom('system' as const, 'developer' as const), textPart)),
    fc.array(turn, { maxLength: 2 }),
    text,
  )
  .map(([system, turns, last]) => [
    ...(system === null ? [] : [{ role: system[0], content: [system[1]] } as Message]),
    ...turns.flat(),
    { role: 'user', content: [{ type: 'text', text: last }] } as Message,
  ])

const schema = json.map(properties => ({ type: 'object', properties }))

const tool: fc.Arbitrary<Tool> = record<Extract<Tool, { type: 'function' }>>(
  {
    type: fc.constant('function'),
    name,
    description: text,
    parameters: schema,
    strict: fc.boolean(),
    cache: fc.constant({}),
    extras: fc.constant({}),
  } as never,
  ['type', 'name', 'parameters'],
).map(({ extras: _, ...rest }) => rest)

const reasoningWish: fc.Arbitrary<Reasoning> = fc.oneof(
  fc.record({ effort: fc.constantFrom('none', 'low', 'medium', 'high') }),
  fc.record({ budget: fc.integer({ min: 1_024, max: 30_000 }) }),
)

/** Mostly absent: a request with every field always has something that a format does not support. */
const rare = <T>(arbitrary: fc.Arbitrary<T>) =>
  fc.oneof({ weight: 1, arbitrary }, { weight: 9, arbitrary: fc.constant(undefined) })

const withoutMarks = (request: unknown): unknown =>
  JSON.parse(JSON.stringify(request), (key, value) => (key === 'cache' ? undefined : value))

/** `formats`: whose extensions a request may contain. */
export const chatRequests = (formats: readonly string[]): fc.Arbitrary<ChatRequest> =>
  fc
    .record(
      {
        model: fc.constantFrom('claude-sonnet-4-6', 'claude-sonnet-4-5', 'some-model'),
        stream: fc.boolean(),
        messages,
        tools: fc.uniqueArray(tool, {
          minLength: 1,
          maxLength: 3,
          selector: each => (each as { name: string }).name,
        }),
        toolChoice: fc.constantFrom('auto' as const, 'none' as const, 'required' as const, 'named' as const),
        parallelTools: fc.boolean(),
        maxTokens: fc.integer({ min: 1, max: 64_000 }),
        temperature: fc.constantFrom(0, 0.2, 0.5, 0.7, 1, 1.5),
        topP: fc.constantFrom(0.1, 1),
        stop: rare(fc.array(text, { minLength: 1, maxLength: 3 })),
        output: fc.oneof(
          rare(fc.constant({ type: 'json' as const })),
          fc.record({ type: fc.constant('schema' as const), schema, name, strict: fc.boolean() }),
        ),
        reasoning: rare(reasoningWish),
        user: text,
        topK: rare(fc.integer({ min: 1, max: 99 })),
        seed: rare(fc.integer()),
        presencePenalty: rare(fc.constantFrom(0, 1)),
        frequencyPenalty: rare(fc.constantFrom(0, 1)),
        choices: rare(fc.integer({ min: 1, max: 4 })),
        logprobs: rare(fc.integer({ min: 0, max: 5 })),
        verbosity: rare(fc.constantFrom('low', 'high')),
        serviceTier: rare(fc.constantFrom('auto', 'flex')),
        isMarked: rare(fc.constant(true)),
        extras: rare(fc.constantFrom(...formats).map(format => ({ [format]: { a_new_field: { deep: 1 } } }))),
      },
      { requiredKeys: ['model', 'stream', 'messages'] },
    )
    .map(({ toolChoice, isMarked, ...request }) => {
      const only = (request.tools?.[0] as { name: string } | undefined)?.name
      const choice =
        toolChoice === 'named'
          ? only === undefined
            ? undefined
            : { mode: 'required' as const, only: [only] }
          : toolChoice && { mode: toolChoice }
      const whole = present({ ...request, toolChoice: choice })
      return (isMarked ? structuredClone(whole) : withoutMarks(whole)) as ChatRequest
    })

const citation: fc.Arbitrary<Citation> = fc.record({
  url,
  title: text,
  quote: text,
  start: fc.constant(0),
  end: fc.constant(2),
})

const count = fc.integer({ min: 0, max: 1_000_000 })

const choice: fc.Arbitrary<Choice> = fc
  .record({
    thoughts: plainReasoning,
    said: fc.option(text),
    citations: fc.array(citation, { maxLength: 2 }),
    refusal: fc.option(text, { freq: 5 }),
    calls: fc.uniqueArray(fc.oneof(toolCall, signedCall), { maxLength: 2, selector: call => call.id }),
    reason: fc.constantFrom('stop' as const, 'length' as const, 'filter' as const, 'sequence' as const),
    logprobs: fc.option(
      fc.array(
        fc.record({
          token: text,
          logprob: fc.constantFrom(-0.5, 0),
          bytes: fc.constant([97]),
          top: fc.array(fc.record({ token: text, logprob: fc.constant(-1), bytes: fc.constant([97, 98]) }), {
            maxLength: 2,
          }),
        }),
        { minLength: 1, maxLength: 3 },
      ),
    ),
  })
  .map(({ thoughts, said: answerText, citations, refusal, calls, reason, logprobs }) => ({
    parts: [
      ...thoughts,
      ...(answerText === null
        ? []
        : [{ type: 'text', text: answerText, ...(citations.length > 0 && { citations }) } as Part]),
      ...(refusal === null ? [] : [{ type: 'refusal', text: refusal } as Part]),
      ...calls,
    ],
    stop: { reason: calls.length > 0 ? 'tools' : reason },
    ...(logprobs !== null && { logprobs }),
  }))

export const chatAnswers: fc.Arbitrary<ChatAnswer> = fc
  .record({
    id: id.map(end => `msg_${end}`),
    model: name,
    createdS: fc.integer({ min: 1, max: 2 ** 31 }),
    choices: fc.array(choice, { minLength: 1, maxLength: 2 }),
    usage: fc
      .record({
        input: count,
        cachedInput: count,
        cacheWrite: count,
        cacheWrite1h: count,
        output: count,
        reasoning: count,
        audioInput: count,
      })
      .map(counts => ({ ...EMPTY, ...counts, calls: 1 })),
  })
  .map(answer => structuredClone(answer))

export const present = <T extends object>(value: T): T =>
  Object.fromEntries(Object.entries(value).filter(([, each]) => each !== undefined)) as T
