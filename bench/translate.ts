import { fileURLToPath } from 'node:url'
import { freePort } from '../test/support/free-port.ts'
import type { Options } from './options.ts'
import { costOf, run, start, untilAnswers } from './process.ts'
import { type Sluice, startSluice } from './sluice.ts'
import type { StreamFigures, StreamLoad } from './stream-client.ts'
import { inWords, median, printTable } from './table.ts'

/** The cost of a stream chunk that passes unchanged, and of one that is translated to the client's format. */
const CHUNKS = 50
const PACE_MS = 20
const SENT = `sim-words-${CHUNKS}-pace-${PACE_MS}`
const STREAMS = { connections: 100, rounds: 1, streamMs: CHUNKS * PACE_MS }
const WARMING = { connections: 4, rounds: 3 }
const GOAL = 3
const MOST_MS = 60_000

const pathOf = (name: string) => fileURLToPath(new URL(name, import.meta.url))

type Asked = { readonly path: string; readonly body: object; readonly last: string }

const TEXT = 'Hello, how are you?'
const messages = [{ role: 'user', content: TEXT }]

/** Client formats: the request for a stream, and the end of a stream. */
const CLIENTS: Readonly<Record<string, (model: string) => Asked>> = {
  'openai-chat': model => ({
    path: '/v1/chat/completions',
    body: { model, messages, stream: true, stream_options: { include_usage: true } },
    last: 'data: [DONE]',
  }),
  anthropic: model => ({
    path: '/v1/messages',
    body: { model, messages, max_tokens: 1_000, stream: true },
    last: 'event: message_stop',
  }),
  responses: model => ({
    path: '/v1/responses',
    body: { model, input: TEXT, stream: true },
    last: 'event: response.completed',
  }),
  gemini: model => ({
    path: `/v1beta/models/${model}:streamGenerateContent?alt=sse`,
    body: { contents: [{ role: 'user', parts: [{ text: TEXT }] }] },
    last: '"finishReason":"STOP"',
  }),
}

const only = (...chat_formats: string[]) => ({ setting: { chat_formats } })

/** Provider formats: channels to the simulator that use them. */
const PROVIDERS: Readonly<
  Record<string, { readonly type: number; readonly key?: string; readonly base?: string }>
> = {
  'openai-chat': { type: 1, ...only('openai-chat') },
  anthropic: { type: 14, base: '/anthropic' },
  responses: { type: 1, ...only('responses') },
  gemini: { type: 24 },
  bedrock: { type: 33, key: 'AKIAEXAMPLE|secret|eu-west-1', base: '/bedrock' },
  cohere: { type: 34, base: '/cohere', ...only('cohere') },
  ollama: { type: 4, base: '/ollama', ...only('ollama') },
}

type Pair = { readonly client: string; readonly provider: string; readonly load: StreamLoad }

async function addContent({ api, url, headers }: Sluice, upstream: string): Promise<Pair[]> {
  for (const [provider, { base = '', ...fields }] of Object.entries(PROVIDERS)) {
    const channel = {
      name: provider,
      key: 'k',
      base_url: upstream + base,
      models: [provider],
      model_mapping: { [provider]: SENT },
      ...fields,
    }
    await api('POST', '/api/channel/', { mode: 'single', channel })
    await api('POST', '/api/price/', { model: provider, input: 1, output: 1, max_output_tokens: 1_000 })
  }
  return Object.entries(CLIENTS).flatMap(([client, ask]) =>
    Object.keys(PROVIDERS)
      // Provider-only formats cost the same for every client format, so one is measured.
      .filter(provider => provider in CLIENTS || client === 'openai-chat')
      .map((provider): Pair => {
        const { path, body, last } = ask(provider)
        const load = { url: url + path, headers, body: JSON.stringify(body), last, ...STREAMS }
        return { client, provider, load }
      }),
  )
}

async function put(load: StreamLoad): Promise<StreamFigures> {
  const printed = await run(process.execPath, [pathOf('stream-client.ts'), JSON.stringify(load)], {
    mostMs: MOST_MS,
  })
  return JSON.parse(printed) as StreamFigures
}

const passes = ({ client, provider }: Pair) => client === provider

export async function benchTranslate({ runs, engine }: Options): Promise<void> {
  const port = await freePort()
  const simulator = start(process.execPath, [pathOf('../simulator/main.ts'), '--port', String(port)])
  const upstream = `http://127.0.0.1:${port}`
  let sluice: Sluice | undefined
  try {
    await untilAnswers(`${upstream}/sim/requests`)
    sluice = await startSluice({ engine })
    const { pid } = sluice
    const pairs = await addContent(sluice, upstream)
    console.log(
      `translate: median of ${runs} runs; ${STREAMS.connections} streams at once of ${CHUNKS} chunks ${PACE_MS} ms apart\n`,
    )
    await Promise.all(pairs.map(({ load }) => put({ ...load, ...WARMING })))
    const results = pairs.map(() => ({ cpuUs: [] as number[], events: 0, failed: 0 }))
    for (let turn = 0; turn < runs; turn++)
      for (const [index, { load }] of pairs.entries()) {
        const units = ({ streams }: StreamFigures) => streams * CHUNKS
        const cost = await costOf(pid, { load: () => put(load), units })
        const result = results[index]
        result?.cpuUs.push(cost.cpuUs)
        if (result) Object.assign(result, { events: cost.events, failed: result.failed + cost.failed })
      }
    report(pairs, results)
  } finally {
    await sluice?.stop()
    await simulator.stop()
  }
}

type Result = { readonly cpuUs: readonly number[]; readonly events: number; readonly failed: number }

function report(pairs: readonly Pair[], results: readonly Result[]): void {
  const costs = results.map(({ cpuUs }) => median(cpuUs))
  const unit = costs[pairs.findIndex(passes)] ?? 1
  const rows = pairs.map((pair, index) => {
    const cost = costs[index] ?? 0
    const { events = 0, failed = 0 } = results[index] ?? {}
    return [
      `${pair.client} ← ${pair.provider}${passes(pair) ? ' (passes)' : ''}`,
      cost.toFixed(1),
      (cost / unit).toFixed(2),
      (events / (STREAMS.connections * CHUNKS)).toFixed(1),
      String(failed),
    ]
  })
  printTable(['client ← provider', 'CPU µs/chunk', '× passing', 'events', 'failed'], rows)
  const worst = Math.max(...costs.map(cost => cost / unit))
  console.log(
    `\nAt most ${worst.toFixed(2)} × the cost of passing: the goal of ${GOAL} × is ${inWords(worst <= GOAL)}.`,
  )
}
