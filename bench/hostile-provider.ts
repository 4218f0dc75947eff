import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

/** A process of its own that answers what hurts, by the name in the prompt; it prints where it listens, as JSON. */
const MB = 1_048_576
const WHOLE_BYTES = 30 * MB
const STREAM_BYTES = 20 * MB

const filled = (piece: string, bytes: number) => piece.repeat(Math.floor(bytes / piece.length))
const list = (length: number, item: (i: number) => string) =>
  Array.from({ length }, (_, i) => item(i)).join(',')

type Format = 'openai' | 'anthropic'

/** A whole answer that says this text, with this beside it. */
const WHOLE: Readonly<Record<Format, (text: string, extra: string) => string>> = {
  openai: (text, extra) =>
    `{"id":"x","object":"chat.completion","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":${text}}}],"usage":{"prompt_tokens":3,"completion_tokens":5,"total_tokens":8},"extra":${extra}}`,
  anthropic: (text, extra) =>
    `{"id":"x","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":${text}}],"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":5},"extra":${extra}}`,
}

const EVENT: Readonly<Record<Format, (text: string) => string>> = {
  openai: text => `data: {"id":"x","choices":[{"index":0,"delta":{"content":"${text}"}}]}\n\n`,
  anthropic: text =>
    `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"${text}"}}\n\n`,
}

const FIRST: Readonly<Record<Format, string>> = {
  openai: '',
  anthropic:
    'data: {"type":"message_start","message":{"id":"x","role":"assistant","model":"m","content":[],"usage":{"input_tokens":3,"output_tokens":1}}}\n\n' +
    'data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}\n\n',
}

const CALL: Readonly<Record<Format, (index: number, args: string) => string>> = {
  openai: (index, args) =>
    `data: {"id":"x","choices":[{"index":0,"delta":{"tool_calls":[{"index":${index},"id":"c${index}","function":{"name":"f","arguments":${JSON.stringify(args)}}}]}}]}\n\n`,
  anthropic: (index, args) =>
    `data: {"type":"content_block_start","index":${index + 1},"content_block":{"type":"tool_use","id":"c${index}","name":"f","input":{}}}\n\n` +
    `data: {"type":"content_block_delta","index":${index + 1},"delta":{"type":"input_json_delta","partial_json":${JSON.stringify(args)}}}\n\n`,
}

type Answer = { readonly isStream: boolean; body(format: Format): string }

const beside = (extra: () => string): Answer => ({
  isStream: false,
  body: format => WHOLE[format]('"hi"', extra()),
})
const saying = (text: () => string): Answer => ({
  isStream: false,
  body: format => WHOLE[format](text(), '1'),
})
const streaming = (events: (format: Format) => string): Answer => ({
  isStream: true,
  body: format => FIRST[format] + events(format),
})

export const HOSTILE_ANSWERS = {
  '30 MB of brackets': beside(() => '['.repeat(WHOLE_BYTES / 2) + ']'.repeat(WHOLE_BYTES / 2)),
  '1,000,000 names': beside(() => `{${list(1_000_000, i => `"some name ${i}":1`)}}`),
  '30 MB of empty objects': beside(() => `[${filled('{},', WHOLE_BYTES)}1]`),
  '30 MB of numbers': beside(() => `[${filled('0.123456789,', WHOLE_BYTES)}1]`),
  '30 MB of spaces': beside(() => `${' '.repeat(WHOLE_BYTES)}1`),
  'a text of 30 MB': saying(() => `"${'a'.repeat(WHOLE_BYTES)}"`),
  'a text of 30 MB of escapes': saying(() => `"${filled('\\u0041', WHOLE_BYTES)}"`),
  'a stream of 20 MB of small events': streaming(format => filled(EVENT[format]('a'), STREAM_BYTES)),
  'a stream of events of 1 MB': streaming(format =>
    filled(EVENT[format]('a'.repeat(1_000_000)), STREAM_BYTES),
  ),
  'a stream of 20,000 names an event': streaming(() =>
    filled(`data: {"a":{${list(20_000, i => `"name ${i}":1`)}}}\n\n`, STREAM_BYTES),
  ),
  'a stream of unfinished tool calls': streaming(
    format =>
      CALL[format](0, `{"a":"${'x'.repeat(500_000)}`) +
      Array.from({ length: 3_000 }, (_, i) => CALL[format](i + 1, '[[[[')).join(''),
  ),
} as const satisfies Record<string, Answer>

export type HostileAnswer = keyof typeof HOSTILE_ANSWERS

const GOOD = '"a good answer"'

if (import.meta.main) {
  const bodies = new Map<string, Buffer>()
  const bodyOf = (name: string, format: Format): Buffer => {
    const known = bodies.get(`${name} ${format}`)
    if (known) return known
    const body = Buffer.from(HOSTILE_ANSWERS[name as HostileAnswer]?.body(format) ?? WHOLE[format](GOOD, '1'))
    // Only the last one: together they are more than a machine may have.
    bodies.clear()
    bodies.set(`${name} ${format}`, body)
    return body
  }
  const server = createServer(async (request, response) => {
    let question = ''
    for await (const chunk of request) question += chunk
    const format = request.url?.includes('messages') ? 'anthropic' : 'openai'
    const name = /answer with: ([\w ,]+)/.exec(question)?.[1] ?? ''
    const isStream = HOSTILE_ANSWERS[name as HostileAnswer]?.isStream ?? false
    const body = bodyOf(name, format)
    response.writeHead(200, {
      'content-type': isStream ? 'text/event-stream' : 'application/json',
      'content-length': body.length,
    })
    response.end(body)
  })
  server.listen(0, '127.0.0.1', () => {
    const { port } = server.address() as AddressInfo
    console.log(JSON.stringify([`http://127.0.0.1:${port}`]))
  })
}
