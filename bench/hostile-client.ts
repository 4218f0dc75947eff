import { request } from 'node:http'

/** A process of its own that makes one hostile body and sends it a few times; it prints the statuses as JSON. */
const MODEL = '"model":"gpt-4o-mini"'
const HELLO = '"messages":[{"role":"user","content":"hello"}]'
const list = (length: number, item: (i: number) => string) =>
  Array.from({ length }, (_, i) => item(i)).join(',')

export const HOSTILE = {
  nothing: () => '',
  'one string of 60 MB': () =>
    `{${MODEL},"messages":[{"role":"user","content":"${'a'.repeat(60_000_000)}"}]}`,
  '60 MB of escapes': () =>
    `{${MODEL},"messages":[{"role":"user","content":"${'\\u0041'.repeat(10_000_000)}"}]}`,
  'nested 1,000,000 deep': () => `{${MODEL},${HELLO},"x":${'['.repeat(1_000_000)}${']'.repeat(1_000_000)}}`,
  '100,000 keys': () => `{${MODEL},${HELLO},${list(100_000, i => `"k${i}":${i}`)}}`,
  '100,000 messages': () =>
    `{${MODEL},"messages":[${list(100_000, i => `{"role":"user","content":"m${i}"}`)}]}`,
  'a number of 10,000,000 digits': () => `{${MODEL},${HELLO},"x":${'9'.repeat(10_000_000)}}`,
  'the same key 1,000,000 times': () => `{${HELLO},${`${MODEL},`.repeat(1_000_000)}"n":1}`,
  'a string that never ends': () =>
    `{${MODEL},"messages":[{"role":"user","content":"${'\\"'.repeat(5_000_000)}`,
} as const satisfies Record<string, () => string>

/** A model whose provider speaks another format than the client. */
const TRANSLATED_MODEL = '"model":"claude-sonnet-4-5","max_tokens":100'
const MB = 1_048_576

/** Requests of chat completions for a channel that speaks another format. */
export const TRANSLATED = {
  'a text of 30 MB translated': () =>
    `{${TRANSLATED_MODEL},"messages":[{"role":"user","content":"${'a'.repeat(30 * MB)}"}]}`,
  'a picture of 30 MB translated': () =>
    `{${TRANSLATED_MODEL},"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,${'iVBORw0K'.repeat((30 * MB) / 8)}"}}]}]}`,
  '30 MB in 1,000 messages translated': () =>
    `{${TRANSLATED_MODEL},"messages":[${list(1_000, i => `{"role":"${i % 2 === 0 ? 'user' : 'assistant'}","content":"${'é\\n'.repeat(7 * 1_024)}"}`)}]}`,
  '40,000 messages translated': () =>
    `{${TRANSLATED_MODEL},"messages":[${list(40_000, i => `{"role":"${i % 2 === 0 ? 'user' : 'assistant'}","content":"m${i}"}`)}]}`,
} as const satisfies Record<string, () => string>

const BODIES: Readonly<Record<string, () => string>> = { ...HOSTILE, ...TRANSLATED }

export type HostileOrder = {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  /** A body of the table above, or one that is given as it is. */
  readonly name: string
  readonly body?: string
  readonly times: number
}

function send({ url, headers }: HostileOrder, body: Buffer): Promise<string> {
  return new Promise(resolve => {
    const sending = request(
      url,
      {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'content-length': body.length, ...headers },
      },
      response => {
        response.resume()
        response.once('close', () => resolve(String(response.statusCode)))
      },
    )
    sending.once('error', error => resolve((error as NodeJS.ErrnoException).code ?? error.message))
    sending.setTimeout(60_000, () => sending.destroy(new Error('no answer in 60 s')))
    sending.end(body)
  })
}

if (import.meta.main) {
  const order = JSON.parse(process.argv[2] ?? '{}') as HostileOrder
  const body = Buffer.from(order.body ?? BODIES[order.name]?.() ?? '')
  const statuses: string[] = []
  // Making the body has kept a core busy; that must be over before anybody measures.
  await new Promise(resolve => setTimeout(resolve, 500))
  console.log('ready')
  await new Promise(resolve => process.stdin.once('data', resolve))
  if (body.length === 0) await new Promise(resolve => setTimeout(resolve, 3_000))
  else for (let i = 0; i < order.times; i++) statuses.push(await send(order, body))
  console.log(JSON.stringify([...new Set(statuses)]))
  process.exit(0)
}
