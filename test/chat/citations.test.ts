import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { createGoogleGenerativeAI } from '@ai-sdk/google'
import { createOpenAI } from '@ai-sdk/openai'
import { anthropic } from '../../src/chat/anthropic/messages/format.ts'
import { gemini } from '../../src/chat/gemini/format.ts'
import type { Format, IdsAndClock } from '../../src/chat/hub/format.ts'
import { openaiChat } from '../../src/chat/openai/chat-completions/format.ts'
import { responses } from '../../src/chat/openai/responses/format.ts'
import { GATHER } from '../support/sdk-answers.ts'

let ids = 0
const idsAndClock: IdsAndClock = { newId: prefix => `${prefix}${++ids}`, nowS: () => 1_700_000_000 }

/**
 * Both kinds of response through the hub: non-streamed, and one that the client's SDK collects from a stream.
 */
async function translated(from: Format, to: Format, whole: object, stream: readonly object[]) {
  const answer = from.decodeAnswer(whole, { idsAndClock })
  assert.ok(!('error' in answer), JSON.stringify(answer))
  const decoder = from.createStreamDecoder({ idsAndClock })
  const encoder = to.createStreamEncoder({ idsAndClock })
  const bytes = stream.map(each => `data: ${JSON.stringify(each)}\n\n`).join('')
  const events = [...decoder.push(Buffer.from(bytes)), ...decoder.end()]
  const encodedStream = Buffer.concat(events.flatMap(event => encoder.push(event)))
  return {
    whole: to.encodeAnswer(answer, { idsAndClock }) as Loose,
    streamed: (await GATHER[to.name as keyof typeof GATHER](encodedStream)) as Loose,
    written: encodedStream,
  }
}

// biome-ignore lint/suspicious/noExplicitAny: responses of four vendors have no type in common
type Loose = any

/** The sources that clients of each format receive, in any field. */
const SOURCES: Readonly<Record<string, (answer: Loose) => readonly Loose[]>> = {
  'openai-chat': ({ choices }) =>
    (choices[0].message.annotations ?? []).map((each: Loose) => each.url_citation),
  anthropic: ({ content }) => content.flatMap((block: Loose) => block.citations ?? []),
  responses: ({ output }) =>
    output.flatMap((item: Loose) => (item.content ?? []).flatMap((part: Loose) => part.annotations ?? [])),
  gemini: ({ candidates }) =>
    (candidates[0].groundingMetadata?.groundingChunks ?? []).map(
      (each: Loose) => each.web ?? each.retrievedContext,
    ),
}

const TEXT = 'The sky is blue.[1] Grass is not.[2]'
const URLS = ['https://sky.example/blue', 'https://grass.example/green']
const RESULTS = [{ title: 'Why is the sky blue?', url: URLS[0], date: '2026-01-01', snippet: 'Rayleigh' }]

describe('pages listed beside the choices, as Perplexity and xAI do', () => {
  const head = { id: 'p1', model: 'sonar', created: 1_700_000_000 }
  const usage = { prompt_tokens: 5, completion_tokens: 9, total_tokens: 14 }
  const beside = { citations: URLS, search_results: RESULTS }
  const whole = {
    ...head,
    usage,
    ...beside,
    choices: [{ index: 0, finish_reason: 'stop', message: { role: 'assistant', content: TEXT } }],
  }
  const piece = (content: string, more: object = {}) => ({ index: 0, delta: { content }, ...more })
  const streams = {
    'with every chunk': [
      { ...head, usage, ...beside, choices: [piece(TEXT.slice(0, 10))] },
      { ...head, usage, ...beside, choices: [piece(TEXT.slice(10))] },
      { ...head, usage, ...beside, choices: [piece('', { finish_reason: 'stop' })] },
    ],
    'with the last word': [
      { ...head, choices: [piece(TEXT.slice(0, 10))] },
      { ...head, usage, ...beside, choices: [piece(TEXT.slice(10), { finish_reason: 'stop' })] },
    ],
    'after the last word': [
      { ...head, choices: [piece(TEXT, { finish_reason: 'stop' })] },
      { ...head, usage, ...beside, choices: [] },
    ],
  }

  for (const [place, stream] of Object.entries(streams))
    for (const format of [anthropic, responses, gemini])
      it(`reach a client of ${format.name}, once each, listed ${place}`, async () => {
        const answers = await translated(openaiChat, format, whole, stream)
        for (const answer of [answers.whole, answers.streamed]) {
          const sources = SOURCES[format.name]?.(answer) ?? []
          assert.deepEqual(
            sources.map(source => source.url ?? source.uri),
            URLS,
          )
          assert.equal(sources[0].title, RESULTS[0]?.title)
        }
      })

  it('have the form that each format defines for pages', async () => {
    const stream = streams['with every chunk']
    const messages = await translated(openaiChat, anthropic, whole, stream)
    assert.equal(messages.whole.content[0].citations[0].type, 'web_search_result_location')
    const response = await translated(openaiChat, responses, whole, stream)
    for (const { output } of [response.whole, response.streamed])
      assert.deepEqual(output[0].content[0].annotations[1], {
        type: 'url_citation',
        url: URLS[1],
        title: '',
        start_index: 0,
        end_index: TEXT.length,
      })
  })

  it('stay where they are for a client of chat completions, and are not repeated', async () => {
    const { whole: response, written: bytes } = await translated(
      openaiChat,
      openaiChat,
      whole,
      streams['with every chunk'],
    )
    assert.deepEqual(response.citations, URLS)
    assert.deepEqual(response.search_results, RESULTS)
    assert.equal(response.choices[0].message.annotations, undefined)
    assert.match(bytes.toString(), /"citations":\["https:\/\/sky/)
    assert.doesNotMatch(bytes.toString(), /url_citation/)
    const late = await translated(openaiChat, openaiChat, whole, streams['with the last word'])
    assert.deepEqual(late.written.toString().match(/https:\/\/(sky|grass)[^"]*/g), URLS)
  })

  it('add no text to a response that only calls a tool, and nothing to one that has its own citations', async () => {
    const call = { index: 0, id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }
    const calls = [
      {
        ...head,
        ...beside,
        choices: [{ index: 0, delta: { tool_calls: [call] }, finish_reason: 'tool_calls' }],
      },
      { ...head, ...beside, choices: [] },
    ]
    const { streamed } = await translated(openaiChat, anthropic, whole, calls)
    assert.deepEqual(
      streamed.content.map(({ type }: Loose) => type),
      ['tool_use'],
    )
    const annotations = URLS.map(url => ({
      type: 'url_citation',
      url_citation: { url, title: 'T', start_index: 0, end_index: 3 },
    }))
    const own = {
      ...whole,
      choices: [{ index: 0, message: { content: TEXT, annotations }, finish_reason: 'stop' }],
    }
    const cited = await translated(openaiChat, responses, own, calls)
    assert.equal(cited.whole.output[0].content[0].annotations.length, 2)
  })

  it('are ignored if they are not a list of URLs', () => {
    for (const citations of [7, 'x', {}, [null, 3, {}, { url: 4 }, []]]) {
      const answer = openaiChat.decodeAnswer(
        { ...whole, citations, search_results: citations },
        { idsAndClock },
      )
      assert.ok(!('error' in answer))
      assert.deepEqual(answer.choices[0]?.parts, [{ type: 'text', text: TEXT }])
    }
  })
})

describe('files that Responses cites', () => {
  const annotations = [
    { type: 'file_citation', file_id: 'file-abc', filename: 'report.pdf', index: 4 },
    {
      type: 'container_file_citation',
      container_id: 'cntr_1',
      file_id: 'cfile_2',
      filename: 'plot.png',
      start_index: 4,
      end_index: 7,
    },
    { type: 'file_path', file_id: 'file-made', index: 9 },
  ]
  const item = {
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    status: 'completed',
    content: [{ type: 'output_text', text: TEXT, annotations }],
  }
  const whole = { id: 'resp_1', object: 'response', model: 'gpt-5', status: 'completed', output: [item] }
  const at = { output_index: 0, content_index: 0, item_id: 'msg_1' }
  const stream = [
    { type: 'response.created', response: { ...whole, output: [], status: 'in_progress' } },
    { type: 'response.output_text.delta', ...at, delta: TEXT },
    ...annotations.map((annotation, annotation_index) => ({
      type: 'response.output_text.annotation.added',
      ...at,
      annotation_index,
      annotation,
    })),
    { type: 'response.output_item.done', output_index: 0, item },
    { type: 'response.completed', response: whole },
  ]
  const ADDRESSES = ['file:///file-abc', 'file:///cntr_1/cfile_2', 'file:///file-made']

  it('are given a URL for clients of chat completions, which support pages only', async () => {
    const answers = await translated(responses, openaiChat, whole, stream)
    const sources = SOURCES['openai-chat']?.(answers.whole)
    assert.deepEqual(
      sources?.map(({ url, title }) => [url, title]),
      [
        [ADDRESSES[0], 'report.pdf'],
        [ADDRESSES[1], 'plot.png'],
        [ADDRESSES[2], ''],
      ],
    )
    assert.deepEqual([sources?.[1].start_index, sources?.[1].end_index], [4, 7])
    for (const address of ADDRESSES) assert.ok(answers.written.includes(`"${address}"`))
  })

  it('are retrieved contexts to clients of Gemini', async () => {
    const answers = await translated(responses, gemini, whole, stream)
    const chunks = answers.whole.candidates[0].groundingMetadata.groundingChunks
    assert.deepEqual(chunks[0], { retrievedContext: { uri: ADDRESSES[0], title: 'report.pdf' } })
    assert.deepEqual(
      chunks.map((chunk: Loose) => chunk.retrievedContext.uri),
      ADDRESSES,
    )
    for (const address of ADDRESSES) assert.ok(answers.written.includes(`"${address}"`))
  })

  it('keep their ids and names for clients of messages, and all they have for clients of Responses', async () => {
    const messages = await translated(responses, anthropic, whole, stream)
    for (const answer of [messages.whole, messages.streamed])
      assert.deepEqual(
        SOURCES.anthropic?.(answer).map(({ file_id, document_title }) => [file_id, document_title]),
        [
          ['file-abc', 'report.pdf'],
          ['cfile_2', 'plot.png'],
          ['file-made', null],
        ],
      )
    const same = await translated(responses, responses, whole, stream)
    for (const answer of [same.whole, same.streamed])
      assert.deepEqual(SOURCES.responses?.(answer), annotations)
  })

  it('are accepted by clients with strict schemas', async () => {
    const options = { prompt: [{ role: 'user', content: [{ type: 'text', text: 'x' }] }] } as never
    const json = (body: unknown) => async () =>
      new Response(JSON.stringify(body), { headers: { 'content-type': 'application/json' } })
    const asChat = (await translated(responses, openaiChat, whole, stream)).whole
    const chat = createOpenAI({ apiKey: 'x', fetch: json(asChat) }).chat('gpt-4o')
    const asGemini = (await translated(responses, gemini, whole, stream)).whole
    const google = createGoogleGenerativeAI({ apiKey: 'x', fetch: json(asGemini) })('gemini-2.5-flash')
    for (const model of [chat, google]) {
      const { content } = await model.doGenerate(options)
      assert.equal(content.filter(({ type }) => type === 'source').length, annotations.length)
    }
  })
})

describe('documents of the request that Anthropic cites', () => {
  const citations = [
    {
      type: 'char_location',
      cited_text: 'blue',
      document_index: 0,
      document_title: 'Sky notes',
      start_char_index: 1,
      end_char_index: 5,
      file_id: 'file_011',
    },
    {
      type: 'search_result_location',
      cited_text: 'green',
      source: URLS[1],
      title: 'Grass',
      search_result_index: 0,
      start_block_index: 0,
      end_block_index: 1,
    },
  ]
  const whole = { id: 'msg_1', type: 'message', role: 'assistant', model: 'claude' }
  const answer = { ...whole, content: [{ type: 'text', text: TEXT, citations }], stop_reason: 'end_turn' }

  it('are named to clients of every other format, and are restored unchanged', () => {
    const decoded = anthropic.decodeAnswer(answer, { idsAndClock })
    assert.ok(!('error' in decoded))
    const chat = openaiChat.encodeAnswer(decoded, { idsAndClock })
    assert.deepEqual(
      SOURCES['openai-chat']?.(chat).map(({ url }) => url),
      ['file:///file_011', URLS[1]],
    )
    const google = gemini.encodeAnswer(decoded, { idsAndClock })
    assert.deepEqual(SOURCES.gemini?.(google)[0], {
      uri: 'file:///file_011',
      title: 'Sky notes',
      text: 'blue',
    })
    assert.deepEqual(SOURCES.anthropic?.(anthropic.encodeAnswer(decoded, { idsAndClock })), citations)
  })
})
