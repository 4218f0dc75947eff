import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { gunzipSync } from 'node:zlib'
import type { CountLine } from '../../simulator/count.ts'
import { deliver } from '../../simulator/deliver.ts'
import { BIG, filler } from '../../simulator/faults/frames.ts'
import { BAD_NUMBERS } from '../../simulator/faults/usage.ts'
import { createFaults, FAULTS, faultIn, findFault } from '../../simulator/faults.ts'
import { type Simulator, startSimulator } from '../../simulator/server.ts'
import { countTokens } from '../../simulator/tokens.ts'
import { until } from '../support/process.ts'

const KEY = 'sk-simulator-fault-test-1234'
const CHAT = '/v1/chat/completions'
const PROMPT = 'Hello there'
const PROMPT_TOKENS = countTokens(PROMPT)
const NOW = Date.UTC(2025, 0, 31, 12)
/** So many equal figures in a row mean that nothing is sent any more. */
const STILL_LOOKS = 5

const folder = mkdtempSync(join(tmpdir(), 'simulator-faults-'))
const countFile = join(folder, 'count.jsonl')
let simulator: Simulator

before(async () => {
  simulator = await startSimulator({ countFile, now: () => NOW })
})
after(async () => {
  await simulator.close()
  rmSync(folder, { recursive: true })
})

/** What was received on the socket, and how the connection ended: closed, reset, or closed by the test. */
type Heard = { head: string; body: Buffer; end: 'closed' | 'reset' | 'left' }

type Ask = {
  model: string
  stream?: boolean
  id?: string
  headers?: Record<string, string>
  /** Disconnects when this is true of the received bytes; otherwise reads until the simulator closes. */
  until?: (received: Buffer) => boolean
  body?: Record<string, unknown>
}

function requestBytes({ model, stream = false, id = '', headers = {}, body = {} }: Ask): string {
  const text = JSON.stringify({ model, stream, messages: [{ role: 'user', content: PROMPT }], ...body })
  const lines = Object.entries({
    host: `127.0.0.1:${simulator.port}`,
    authorization: `Bearer ${KEY}`,
    'x-client-request-id': id,
    'content-length': String(Buffer.byteLength(text)),
    connection: 'close',
    ...headers,
  }).map(([name, value]) => `${name}: ${value}\r\n`)
  return `POST ${CHAT} HTTP/1.1\r\n${lines.join('')}\r\n${text}`
}

/** Sends requests over a bare socket, because a client library would hide what the simulator did. */
function listen(ask: Ask): Promise<Heard> {
  return new Promise((resolve, reject) => {
    const socket = connect(simulator.port, '127.0.0.1')
    const pieces: Buffer[] = []
    const finish = (end: Heard['end']) => {
      const all = Buffer.concat(pieces)
      const split = all.indexOf('\r\n\r\n')
      const head = all.toString('latin1', 0, Math.max(split, 0))
      resolve({ head, body: split === -1 ? Buffer.alloc(0) : all.subarray(split + 4), end })
    }
    socket.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'ECONNRESET') finish('reset')
      else reject(error)
    })
    socket.on('close', () => finish('closed'))
    socket.on('data', (piece: Buffer) => {
      pieces.push(piece)
      if (ask.until?.(Buffer.concat(pieces)) !== true) return
      finish('left')
      socket.destroy()
    })
    socket.write(requestBytes(ask))
  })
}

async function fetchChat({
  model,
  stream = false,
  id = '',
  headers = {},
  body = {},
}: Ask): Promise<Response> {
  return fetch(simulator.url + CHAT, {
    method: 'POST',
    redirect: 'manual',
    headers: { authorization: `Bearer ${KEY}`, 'x-client-request-id': id, ...headers },
    body: JSON.stringify({ model, stream, messages: [{ role: 'user', content: PROMPT }], ...body }),
  })
}

/** The data of chunks, the size of each, and whether the final chunk was received. */
function dechunk(body: Buffer): { text: string; sizes: number[]; isEnded: boolean; trailer: string } {
  let text = ''
  const sizes: number[] = []
  for (let at = 0; at < body.length; ) {
    const lineEnd = body.indexOf('\r\n', at)
    const size = Number.parseInt(body.toString('latin1', at, lineEnd), 16)
    const start = lineEnd + 2
    if (size === 0) return { text, sizes, isEnded: true, trailer: body.toString('latin1', start) }
    sizes.push(size)
    text += body.toString('utf8', start, start + size)
    at = start + size + 2
  }
  return { text, sizes, isEnded: false, trailer: '' }
}

type Event = {
  choices?: { delta: { role?: string; content?: string }; finish_reason: string | null }[]
  usage?: Record<string, unknown> | null
  error?: { message: string }
}

const dataOf = (text: string) =>
  text
    .split('\n\n')
    .filter(event => event !== '')
    .map(event => event.replace(/^data: /, ''))
const eventsOf = (text: string) =>
  dataOf(text)
    .filter(data => data !== '[DONE]')
    .map(data => JSON.parse(data) as Event)
const wordsOf = (events: readonly Event[]) =>
  events.flatMap(({ choices = [] }) => choices.flatMap(({ delta }) => delta.content || []))

/** The count file's line for a request; it may be written a moment after the client has disconnected. */
async function lineOf(id: string): Promise<CountLine> {
  for (;;) {
    const lines = readFileSync(countFile, 'utf8').split('\n').filter(Boolean)
    const matchingLines = lines
      .map(line => JSON.parse(line) as CountLine)
      .filter(line => line.client_request_id === id)
    assert.ok(matchingLines.length <= 1, `${matchingLines.length} lines for ${id}`)
    if (matchingLines[0] !== undefined) return matchingLines[0]
    await sleep(5)
  }
}

/** Waits until the simulator has parsed a request, so that there is a request to disconnect from. */
async function understood(id: string, at: Simulator = simulator): Promise<void> {
  for (;;) {
    const { last } = (await (await fetch(`${at.url}/sim/requests`)).json()) as {
      last: { fault: string | null; headers: Record<string, string> }[]
    }
    if (last.some(({ fault, headers }) => fault !== null && headers['x-client-request-id'] === id)) return
    await sleep(5)
  }
}

async function assertCounted(id: string, prompt: number, completion: number, isFinished: boolean) {
  const { prompt_tokens, completion_tokens, finished } = await lineOf(id)
  assert.deepEqual(
    { prompt_tokens, completion_tokens, finished },
    { prompt_tokens: prompt, completion_tokens: completion, finished: isFinished },
  )
}

const errorOf = async (response: Response) => {
  const { error } = (await response.json()) as { error: Record<string, string | null> }
  assert.deepEqual(Object.keys(error), ['message', 'type', 'param', 'code'])
  return error
}

describe('the name of a fault', () => {
  it('is parsed with its numbers', () => {
    assert.deepEqual(findFault('cut-40')?.numbers, [40])
    assert.deepEqual(findFault('status-429-retry-5')?.numbers, [429, 5])
    assert.deepEqual(findFault('early-413')?.numbers, [])
    for (const unknown of ['', 'cut', 'cut-many', 'early-414', 'hang-1', 'toString']) {
      assert.equal(findFault(unknown), undefined, unknown)
    }
  })

  it('is found in a model name, the longest match first', () => {
    for (const [model, name] of [
      ['sim-hang', 'hang'],
      ['sim-words-200-cut-40-pace-5', 'cut-40'],
      ['sim-status-429-retry-5-words-10', 'status-429-retry-5'],
      ['sim-status-429-retry-date', 'status-429-retry-date'],
      ['sim-gzip-bomb', 'gzip-bomb'],
      ['sim-gzip-small', 'gzip'],
      ['sim-small-error-in-stream', 'error-in-stream'],
    ] as const) {
      assert.equal(faultIn(model)?.name, name, model)
    }
  })

  it('is not found in names that do not start with sim-', () => {
    for (const model of ['gpt-hang', 'hang', 'sim-small', 'sim-words-50', 'sim-', 'xsim-hang']) {
      assert.equal(faultIn(model), undefined, model)
      assert.equal(createFaults().ofModel(model), undefined, model)
    }
  })

  it('is parsed once for each model', () => {
    const faults = createFaults()
    assert.equal(faults.ofModel('sim-cut-7'), faults.ofModel('sim-cut-7'))
  })

  it('is in the table of the README', () => {
    const readme = readFileSync(new URL('../../simulator/README.md', import.meta.url), 'utf8')
    for (const name of Object.keys(FAULTS)) assert.ok(readme.includes(`\`${name}\``), name)
  })

  for (const name of [
    'nonsense',
    'status-99',
    'status-600',
    'flaky-101',
    'slow-60001',
    'status-429-retry-86401',
  ]) {
    it(`is refused in a header when it is ${name}`, async () => {
      const response = await fetchChat({ model: 'gpt-4o', headers: { 'x-sim-fault': name } })
      assert.equal(response.status, 400)
      assert.equal((await errorOf(response)).code, 'invalid_steering')
    })
  }

  it('is refused in a model name when its number is out of bounds', async () => {
    assert.equal((await fetchChat({ model: 'sim-status-999' })).status, 400)
  })

  it('may be a header with any model, and takes precedence over the name', async () => {
    const headers = { 'x-sim-fault': 'status-503' }
    assert.equal((await fetchChat({ model: 'gpt-4o', headers })).status, 503)
    assert.equal((await fetchChat({ model: 'sim-status-418', headers })).status, 503)
  })
})

describe('a response that stops', () => {
  for (const stream of [false, true]) {
    const kind = stream ? 'streamed' : 'whole'

    it(`never starts with hang (${kind})`, async () => {
      const id = `hang-${kind}`
      const socket = connect(simulator.port, '127.0.0.1')
      let received = 0
      socket.on('data', piece => {
        received += piece.length
      })
      socket.write(requestBytes({ model: 'sim-hang', stream, id }))
      await understood(id)
      await sleep(50)
      assert.equal(received, 0)
      socket.destroy()
      await assertCounted(id, PROMPT_TOKENS, 0, false)
    })

    it(`is a reset before any byte with reset (${kind})`, async () => {
      const id = `reset-${kind}`
      const { head, end } = await listen({ model: 'sim-reset', stream, id })
      assert.deepEqual({ head, end }, { head: '', end: 'reset' })
      await assertCounted(id, PROMPT_TOKENS, 0, false)
    })
  }

  for (const tokens of [0, 1, 40]) {
    it(`is a stream destroyed after ${tokens} tokens with cut-${tokens}`, async () => {
      const id = `cut-${tokens}`
      const response = await listen({ model: `sim-words-100-cut-${tokens}`, stream: true, id })
      const { text, isEnded } = dechunk(response.body)
      const events = eventsOf(text)
      assert.match(response.head, /^HTTP\/1\.1 200 OK/)
      assert.equal(response.end, 'closed')
      assert.equal(isEnded, false)
      assert.equal(wordsOf(events).length, tokens)
      assert.ok(events.every(({ choices }) => choices?.[0]?.finish_reason === null))
      await assertCounted(id, PROMPT_TOKENS, tokens, false)
    })
  }

  it('is not cut when it is shorter than that', async () => {
    const { body } = await listen({ model: 'sim-words-3-eof-4', stream: true })
    assert.match(dechunk(body).text, /\[DONE\]/)
  })

  it('is half of a non-streamed body under the full length with cut-N', async () => {
    const { head, body, end } = await listen({ model: 'sim-words-50-cut-40', id: 'cut-whole' })
    const announced = Number(/content-length: (\d+)/.exec(head)?.[1])
    assert.equal(body.length, Math.floor(announced / 2))
    assert.equal(end, 'closed')
    await assertCounted('cut-whole', PROMPT_TOKENS, 50, false)
  })

  it('is a clean end without finish reason and [DONE] with eof-N', async () => {
    const response = await listen({ model: 'sim-words-100-eof-7', stream: true, id: 'eof' })
    const { text, isEnded } = dechunk(response.body)
    assert.equal(isEnded, true)
    assert.equal(wordsOf(eventsOf(text)).length, 7)
    assert.doesNotMatch(text, /\[DONE\]|"finish_reason":"/)
    await assertCounted('eof', PROMPT_TOKENS, 7, false)
  })

  it('is half of a non-streamed body, with its actual length, with eof-N', async () => {
    const response = await fetchChat({ model: 'sim-words-50-eof-7', id: 'eof-whole' })
    const text = await response.text()
    assert.equal(response.headers.get('content-length'), String(text.length))
    assert.throws(() => JSON.parse(text))
    await assertCounted('eof-whole', PROMPT_TOKENS, 50, false)
  })

  it('is the role and nothing else with preamble', async () => {
    const response = await listen({ model: 'sim-preamble', stream: true, id: 'preamble' })
    const { text, isEnded } = dechunk(response.body)
    const events = eventsOf(text)
    assert.equal(events.length, 1)
    assert.equal(events[0]?.choices?.[0]?.delta.role, 'assistant')
    assert.equal(isEnded, false)
    assert.equal(response.end, 'closed')
    await assertCounted('preamble', PROMPT_TOKENS, 0, false)
  })

  it('is a head without a body with preamble, if not streamed', async () => {
    const { head, body, end } = await listen({ model: 'sim-words-5-preamble', id: 'preamble-whole' })
    assert.match(head, /content-length: [1-9]/)
    assert.equal(body.length, 0)
    assert.equal(end, 'closed')
    await assertCounted('preamble-whole', PROMPT_TOKENS, 5, false)
  })

  it('stalls forever after N tokens with stall-N, until the client disconnects', async () => {
    const isThere = (received: Buffer) => received.toString().split('"content":" ').length > 4
    const ask = { model: 'sim-words-100-stall-5', stream: true, id: 'stall', until: isThere }
    const { body, end } = await listen(ask)
    assert.equal(end, 'left')
    assert.equal(wordsOf(eventsOf(dechunk(body).text)).length, 5)
    await assertCounted('stall', PROMPT_TOKENS, 5, false)
  })

  it('stalls in the middle of a non-streamed body with stall-N', async () => {
    const until = (received: Buffer) => received.includes('"choices"')
    const { head, body } = await listen({ model: 'sim-words-50-stall-5', id: 'stall-whole', until })
    assert.equal(body.length, Math.floor(Number(/content-length: (\d+)/.exec(head)?.[1]) / 2))
    await assertCounted('stall-whole', PROMPT_TOKENS, 50, false)
  })

  it('is sent byte by byte with drip, a second apart unless an interval is set', async () => {
    const ask = { model: 'sim-words-1-drip-pace-1', stream: true, id: 'drip' }
    const { body } = await listen(ask)
    const { text, sizes, isEnded } = dechunk(body)
    assert.equal(sizes.length, text.length)
    assert.equal(isEnded, true)
    assert.match(text, /\[DONE\]/)
    await assertCounted('drip', PROMPT_TOKENS, 1, true)
    const { spoil } = FAULTS.drip
    const script = { bill: undefined, isStream: true, head: undefined, frames: [], ending: 'end' } as const
    assert.equal(spoil({ ...script, isFinished: true }, {} as Parameters<typeof spoil>[1]).paceMs, 1000)
  })

  it('is late but complete with slow-N', async () => {
    const response = await fetchChat({ model: 'sim-words-5-slow-20', id: 'slow' })
    assert.equal(response.status, 200)
    await response.text()
    await assertCounted('slow', PROMPT_TOKENS, 5, true)
  })

  it('is not sent to a client that disconnects during the delay', async () => {
    const socket = connect(simulator.port, '127.0.0.1')
    socket.write(requestBytes({ model: 'sim-slow-60000', id: 'slow-left' }))
    await understood('slow-left')
    socket.destroy()
    await assertCounted('slow-left', PROMPT_TOKENS, 0, false)
  })

  for (const [by, model, headers] of [
    ['header', 'gpt-4o', { 'x-sim-fault': 'early-413' }],
    ['model name', 'sim-early-413', {}],
  ] as const) {
    it(`is sent before the request is complete with early-413 by ${by}`, async () => {
      const socket = connect(simulator.port, '127.0.0.1')
      const responseText = Promise.withResolvers<string>()
      let received = ''
      socket.on('error', () => {})
      socket.on('data', piece => {
        received += String(piece)
      })
      socket.on('end', () => responseText.resolve(received))
      const start = requestBytes({ model, headers: { ...headers, 'content-length': '50000000' } })
      socket.write(Buffer.concat([Buffer.from(start), Buffer.alloc(50_000_000)]))
      const answer = await responseText.promise
      // A simulator that would read the rest after all would do so before it answers another request.
      await (await fetchChat({ model: 'sim-words-1' })).text()
      assert.ok(socket.writableLength > 0)
      assert.match(answer, /^HTTP\/1\.1 413 /)
      assert.match(answer, /connection: close/)
      assert.match(answer, /"error":\{"message"/)
      socket.destroy()
    })
  }

  it('is 413 with early-413 for a body that arrived in one piece, too', async () => {
    const { head, body } = await listen({ model: 'sim-early-413', until: got => got.includes('}}') })
    assert.match(head, /^HTTP\/1\.1 413 /)
    assert.match(body.toString(), /"error"/)
  })
})

describe('a response that is an error', () => {
  for (const stream of [false, true]) {
    it(`has the status and a body in OpenAI’s format with status-N (stream: ${stream})`, async () => {
      for (const [status, type, code] of [
        [400, 'invalid_request_error', null],
        [401, 'invalid_request_error', 'invalid_api_key'],
        [404, 'invalid_request_error', 'model_not_found'],
        [429, 'requests', 'rate_limit_exceeded'],
        [500, 'server_error', null],
        [503, 'server_error', null],
      ] as const) {
        const id = `status-${status}-${stream}`
        const response = await fetchChat({ model: `sim-status-${status}`, stream, id })
        const error = await errorOf(response)
        assert.equal(response.status, status)
        assert.equal(response.headers.get('retry-after'), null)
        assert.deepEqual([error.type, error.code], [type, code])
        await assertCounted(id, 0, 0, false)
      }
    })
  }

  for (const [fault, expected] of [
    ['status-429-retry-3600', '3600'],
    ['status-503-retry-1', '1'],
    ['status-429-retry-date', new Date(NOW + 30_000).toUTCString()],
  ] as const) {
    it(`has a retry delay with ${fault}`, async () => {
      const response = await fetchChat({ model: `sim-${fault}` })
      assert.equal(response.status, Number(fault.split('-')[1]))
      assert.equal(response.headers.get('retry-after'), expected)
    })
  }

  it('has an invalid retry delay with status-429-retry-garbage', async () => {
    const value =
      (await fetchChat({ model: 'sim-status-429-retry-garbage' })).headers.get('retry-after') ?? ''
    assert.notEqual(value, '')
    assert.ok(Number.isNaN(Number(value)) && Number.isNaN(Date.parse(value)), value)
  })

  it('is an insufficient quota with status-429-quota', async () => {
    const response = await fetchChat({ model: 'sim-status-429-quota' })
    assert.equal(response.status, 429)
    assert.equal((await errorOf(response)).code, 'insufficient_quota')
  })

  it('repeats the key with error-key', async () => {
    const response = await fetchChat({ model: 'sim-error-key' })
    assert.equal(response.status, 401)
    assert.ok((await errorOf(response)).message?.includes(KEY))
  })

  it('is 100 MB long with bigerror, as declared', async () => {
    const response = await fetchChat({ model: 'sim-bigerror', id: 'bigerror' })
    assert.equal(response.status, 500)
    const body = Buffer.from(await response.arrayBuffer())
    assert.ok(body.length > BIG)
    assert.equal(response.headers.get('content-length'), String(body.length))
    assert.equal(body.toString('utf8', 0, 22), '{"error":{"message":"x')
    assert.equal(body.toString('utf8', body.length - 2), '}}')
    await assertCounted('bigerror', 0, 0, false)
  })

  it('is sent for P of every hundred requests with flaky-P, in a fixed order', async () => {
    const own = await startSimulator()
    const statuses = async (url: string) => {
      const statusCodes: number[] = []
      for (let at = 0; at < 100; at += 1) {
        const headers = { authorization: `Bearer ${KEY}` }
        const body = JSON.stringify({ model: 'sim-flaky-30', messages: [{ role: 'user', content: 'Hi' }] })
        const response = await fetch(url + CHAT, { method: 'POST', headers, body })
        await response.text()
        statusCodes.push(response.status)
      }
      return statusCodes
    }
    const [one, other] = [await statuses(simulator.url), await statuses(own.url)]
    await own.close()
    assert.deepEqual(one, other)
    assert.equal(one.filter(status => status === 500).length, 30)
    assert.equal(one.filter(status => status === 200).length, 70)
    assert.ok(new Set([one.slice(0, 10).join(), one.slice(10, 20).join(), one.slice(20, 30).join()]).size > 1)
  })

  it('is a redirect to itself, or to the address in the header, with redirect', async () => {
    const itself = await fetchChat({ model: 'sim-redirect' })
    const elsewhere = 'http://127.0.0.1:9/other?x=1'
    const away = await fetchChat({ model: 'sim-redirect', headers: { 'x-sim-redirect-to': elsewhere } })
    assert.deepEqual([itself.status, away.status], [302, 302])
    assert.equal(itself.headers.get('location'), simulator.url + CHAT)
    assert.equal(away.headers.get('location'), elsewhere)
  })
})

describe('a response with the wrong content', () => {
  for (const stream of [false, true]) {
    for (const [fault, type, body] of [
      ['html', 'text/html', /^<!doctype html>/],
      ['empty', 'application/json', /^$/],
      ['array', 'application/json', /^\[.*\]$/],
    ] as const) {
      it(`is 200 with ${fault} (stream: ${stream})`, async () => {
        const id = `${fault}-${stream}`
        const response = await fetchChat({ model: `sim-${fault}`, stream, id })
        assert.equal(response.status, 200)
        assert.equal(response.headers.get('content-type'), type)
        assert.match(await response.text(), body)
        await assertCounted(id, 0, 0, false)
      })
    }
  }

  it('has one malformed event among valid ones with badjson', async () => {
    const body = { stream_options: { include_usage: true } }
    const response = await fetchChat({ model: 'sim-words-10-badjson', stream: true, id: 'badjson', body })
    const data = dataOf(await response.text())
    const isGood = data.map(text => {
      try {
        return JSON.parse(text === '[DONE]' ? '{}' : text) !== undefined
      } catch {
        return false
      }
    })
    assert.equal(data.at(-1), '[DONE]')
    // Role and three tokens come before it.
    assert.deepEqual(
      isGood.flatMap((good, at) => (good ? [] : [at])),
      [4],
    )
    const events = data
      .filter((text, at) => isGood[at] && text !== '[DONE]')
      .map(text => JSON.parse(text) as Event)
    assert.equal(wordsOf(events).length, 10)
    assert.equal(events.at(-1)?.usage?.completion_tokens, 10)
    await assertCounted('badjson', PROMPT_TOKENS, 10, true)
  })

  it('is half of its JSON with badjson, if not streamed', async () => {
    const text = await (await fetchChat({ model: 'sim-words-10-badjson' })).text()
    assert.match(text, /^\{"id"/)
    assert.throws(() => JSON.parse(text))
  })

  it('has a line of 100 MB with bigline, after some tokens', async () => {
    const response = await fetchChat({ model: 'sim-words-10-bigline', stream: true, id: 'bigline' })
    const body = Buffer.from(await response.arrayBuffer())
    const lastBreak = body.lastIndexOf('\n')
    assert.ok(body.length - lastBreak > BIG)
    assert.equal(wordsOf(eventsOf(body.toString('utf8', 0, lastBreak + 1))).length, 3)
    await assertCounted('bigline', PROMPT_TOKENS, 3, false)
  })

  it('has a member of 100 MB with bigline, if not streamed, and is valid JSON', async () => {
    const response = await fetchChat({ model: 'sim-words-10-bigline', id: 'bigline-whole' })
    const text = await response.text()
    assert.ok(text.length > BIG)
    assert.ok(!text.includes('\n'))
    const { usage } = JSON.parse(text) as Event
    assert.equal(usage?.completion_tokens, 10)
    await assertCounted('bigline-whole', PROMPT_TOKENS, 10, true)
  })

  it('is generated no faster than the client reads', async () => {
    let generatedLength = 0
    function* frames() {
      for (const frame of filler()) {
        generatedLength += frame.data.length
        yield frame
      }
    }
    const script = { bill: undefined, isStream: true, frames: frames(), isFinished: true } as const
    const head = { status: 200, headers: {} }
    const timing = { latencyMs: 0, paceMs: 0 }
    const delivered = Promise.withResolvers<void>()
    const server = createServer((_, response) => {
      const tally = () => delivered.resolve()
      void deliver(response, { ...script, head, ending: 'end' }, { timing, tally })
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
    socket.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n')
    await once(socket, 'readable')
    const looks: number[] = []
    await until('the response to stop', () => {
      looks.push(generatedLength)
      return generatedLength > 0 && looks.length >= STILL_LOOKS && looks.at(-STILL_LOOKS) === generatedLength
        ? true
        : undefined
    })
    assert.ok(generatedLength < BIG / 2, `${generatedLength}`)
    socket.destroy()
    await delivered.promise
    server.close()
  })

  it('has no blank line with noblank', async () => {
    const response = await fetchChat({ model: 'sim-words-10-noblank', stream: true, id: 'noblank' })
    const text = await response.text()
    assert.ok(!text.includes('\n\n'))
    // Role, ten tokens, finish reason, [DONE].
    assert.equal(text.split('\n').filter(line => line.startsWith('data: ')).length, 13)
    await assertCounted('noblank', PROMPT_TOKENS, 10, true)
    assert.equal((await fetchChat({ model: 'sim-noblank' })).status, 200)
  })

  it('reports a failure in the middle with error-in-stream', async () => {
    const response = await fetchChat({ model: 'sim-words-10-error-in-stream', stream: true, id: 'in-stream' })
    const text = await response.text()
    const events = eventsOf(text)
    assert.equal(response.status, 200)
    assert.equal(wordsOf(events).length, 3)
    assert.match(events.at(-1)?.error?.message ?? '', /middle/)
    assert.doesNotMatch(text, /\[DONE\]/)
    await assertCounted('in-stream', PROMPT_TOKENS, 3, false)
  })

  it('is an error under status 200 with error-in-stream, if not streamed', async () => {
    const response = await fetchChat({ model: 'sim-error-in-stream', id: 'in-stream-whole' })
    assert.equal(response.status, 200)
    assert.match((await errorOf(response)).message ?? '', /middle/)
    await assertCounted('in-stream-whole', 0, 0, false)
  })
})

describe('a response with wrong usage', () => {
  const withUsage = { stream_options: { include_usage: true } }
  const wholeUsage = async (fault: string, id: string) => {
    const response = await fetchChat({ model: `sim-words-10-${fault}`, id })
    return ((await response.json()) as Event).usage
  }
  const streamed = async (fault: string, id: string) => {
    const response = await fetchChat({ model: `sim-words-10-${fault}`, stream: true, id, body: withUsage })
    const text = await response.text()
    assert.match(text, /data: \[DONE\]\n\n$/)
    const events = eventsOf(text)
    assert.equal(wordsOf(events).length, 10)
    return events
  }
  /** The count file stays correct. */
  const assertHonest = async (...ids: string[]) => {
    for (const id of ids) await assertCounted(id, PROMPT_TOKENS, 10, true)
  }

  it('has none with nousage', async () => {
    assert.equal(await wholeUsage('nousage', 'nousage-whole'), undefined)
    const events = await streamed('nousage', 'nousage')
    assert.ok(events.every(event => !('usage' in event) && event.choices?.length === 1))
    await assertHonest('nousage-whole', 'nousage')
  })

  it('reports zero usage with zerousage', async () => {
    const expected = { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }
    const parts = ({ prompt_tokens, completion_tokens, total_tokens }: Record<string, unknown>) => ({
      prompt_tokens,
      completion_tokens,
      total_tokens,
    })
    assert.deepEqual(parts((await wholeUsage('zerousage', 'zero-whole')) ?? {}), expected)
    assert.deepEqual(parts((await streamed('zerousage', 'zero')).at(-1)?.usage ?? {}), expected)
    await assertHonest('zero-whole', 'zero')
  })

  it('has impossible numbers with badusage, another kind for each request', async () => {
    const reportedTotals: unknown[] = []
    for (const at of BAD_NUMBERS.keys()) {
      const id = `bad-${at}`
      const usage =
        at % 2 === 0 ? await wholeUsage('badusage', id) : (await streamed('badusage', id)).at(-1)?.usage
      assert.equal(usage?.prompt_tokens, usage?.completion_tokens)
      reportedTotals.push(usage?.total_tokens)
      await assertHonest(id)
    }
    assert.deepEqual(reportedTotals, [-7, 2.5, 1e18, '12'])
  })

  it('has N times the tokens with overuse-N', async () => {
    for (const usage of [
      await wholeUsage('overuse-7', 'over-whole'),
      (await streamed('overuse-7', 'over')).at(-1)?.usage,
    ]) {
      assert.equal(usage?.prompt_tokens, PROMPT_TOKENS * 7)
      assert.equal(usage?.completion_tokens, 70)
      assert.equal(usage?.total_tokens, PROMPT_TOKENS * 7 + 70)
    }
    await assertHonest('over-whole', 'over')
  })

  it('reports cumulative usage in every chunk with dupusage', async () => {
    const events = await streamed('dupusage', 'dup')
    const counts = events.map(({ usage }) => usage?.completion_tokens)
    assert.deepEqual(counts, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10, 10])
    assert.ok(events.every(({ usage }) => usage?.prompt_tokens === PROMPT_TOKENS))
    await assertHonest('dup')
  })

  it('has the member twice with dupusage, if not streamed, and the last is right', async () => {
    const text = await (await fetchChat({ model: 'sim-words-10-dupusage', id: 'dup-whole' })).text()
    assert.equal(text.split('"usage":').length, 3)
    assert.match(text, /"completion_tokens":5,/)
    assert.equal((JSON.parse(text) as Event).usage?.completion_tokens, 10)
    await assertHonest('dup-whole')
  })
})

describe('a response with faulty HTTP', () => {
  const identity = { 'accept-encoding': 'identity' }

  it('is compressed with gzip, although the client does not accept it', async () => {
    const whole = await listen({ model: 'sim-words-10-gzip', id: 'gzip-whole', headers: identity })
    assert.match(whole.head, /content-encoding: gzip/)
    assert.match(whole.head, new RegExp(`content-length: ${whole.body.length}\\b`))
    assert.equal((JSON.parse(gunzipSync(whole.body).toString()) as Event).usage?.completion_tokens, 10)
    const response = await fetchChat({
      model: 'sim-words-10-gzip',
      stream: true,
      id: 'gzip',
      headers: identity,
    })
    assert.equal(response.headers.get('content-encoding'), 'gzip')
    assert.equal(wordsOf(eventsOf(await response.text())).length, 10)
    for (const id of ['gzip-whole', 'gzip']) await assertCounted(id, PROMPT_TOKENS, 10, true)
  })

  it('only claims to be compressed with gzip-false', async () => {
    const { head, body } = await listen({ model: 'sim-gzip-false' })
    assert.match(head, /content-encoding: gzip/)
    assert.doesNotThrow(() => JSON.parse(body.toString()))
  })

  it('is far larger than its compressed size with gzip-bomb', async () => {
    const { head, body } = await listen({ model: 'sim-gzip-bomb', id: 'bomb' })
    assert.match(head, new RegExp(`content-length: ${body.length}\\b`))
    const member = body.length / 1000
    assert.equal(gunzipSync(body.subarray(0, member)).length, 10 * 1024 * 1024)
    assert.ok(body.subarray(0, member).equals(body.subarray(-member)))
    await assertCounted('bomb', 0, 0, false)
  })

  it('is longer than declared with length-short, and leaves the rest in an open connection', async () => {
    const until = (received: Buffer) => received.includes('fp_simulator"}')
    const headers = { connection: 'keep-alive' }
    const { head, body, end } = await listen({
      model: 'sim-words-10-length-short',
      id: 'short',
      headers,
      until,
    })
    assert.equal(end, 'left')
    assert.equal(Number(/content-length: (\d+)/.exec(head)?.[1]), body.length - 20)
    await assertCounted('short', PROMPT_TOKENS, 10, false)
  })

  it('is shorter than declared with length-long', async () => {
    const { head, body, end } = await listen({ model: 'sim-words-10-length-long', id: 'long' })
    assert.equal(end, 'closed')
    assert.equal(Number(/content-length: (\d+)/.exec(head)?.[1]), body.length + 20)
    assert.doesNotThrow(() => JSON.parse(body.toString()))
    await assertCounted('long', PROMPT_TOKENS, 10, false)
  })

  for (const [fault, length] of [
    ['length-short', 100],
    ['length-long', 1_000_000_000],
  ] as const) {
    it(`is a stream with a wrong length with ${fault}`, async () => {
      const { head, body } = await listen({ model: `sim-words-10-${fault}`, stream: true })
      assert.match(head, new RegExp(`content-length: ${length}\\b`))
      assert.doesNotMatch(head, /transfer-encoding/)
      assert.equal(wordsOf(eventsOf(body.toString())).length, 10)
    })
  }

  for (const [fault, expected] of [
    ['length-negative', ['content-length: -5']],
    ['length-twice', ['content-length: 10', 'content-length: 20']],
    ['length-chunked', ['content-length: 10', 'transfer-encoding: chunked']],
  ] as const) {
    it(`has a misleading head with ${fault}`, async () => {
      const { head, end } = await listen({ model: `sim-words-10-${fault}`, id: fault })
      const lines = head.split('\r\n').filter(line => /^(content-length|transfer-encoding):/.test(line))
      assert.deepEqual(lines, expected)
      assert.equal(end, 'closed')
      await assertCounted(fault, PROMPT_TOKENS, 10, false)
    })
  }

  it('has header injection with crlf-header', async () => {
    const response = await fetchChat({ model: 'sim-words-10-crlf-header', id: 'crlf' })
    assert.equal(response.headers.get('x-sim-note'), 'harmless')
    assert.equal(response.headers.get('x-sim-injected'), 'yes')
    assert.match(response.headers.get('set-cookie') ?? '', /^sim-session=injected/)
    assert.equal(((await response.json()) as Event).usage?.completion_tokens, 10)
    await assertCounted('crlf', PROMPT_TOKENS, 10, true)
  })

  it('streams with injected headers, too', async () => {
    const { head, body } = await listen({ model: 'sim-words-10-crlf-header', stream: true })
    assert.match(head, /\r\nx-sim-note: harmless\r\nset-cookie: /)
    assert.equal(wordsOf(eventsOf(body.toString())).length, 10)
  })

  it('has a header of 100 KB with bigheader', async () => {
    const { head, body } = await listen({ model: 'sim-bigheader' })
    assert.equal(/x-sim-big: (x+)\r\n/.exec(`${head}\r\n`)?.[1]?.length, 100_000)
    assert.doesNotThrow(() => JSON.parse(body.toString()))
  })

  it('follows interim responses with interim', async () => {
    const { head, body } = await listen({ model: 'sim-words-10-interim', id: 'interim' })
    assert.equal(head, 'HTTP/1.1 102 Processing')
    assert.match(body.toString(), /^HTTP\/1\.1 103 Early Hints\r\nlink: .*\r\n\r\nHTTP\/1\.1 200 OK\r\n/)
    await assertCounted('interim', PROMPT_TOKENS, 10, true)
  })

  it('changes the protocol with upgrade', async () => {
    const { head } = await listen({ model: 'sim-upgrade' })
    assert.match(head, /^HTTP\/1\.1 101 Switching Protocols\r\n/)
  })

  it('ends with its connection with http10', async () => {
    const { head, body, end } = await listen({ model: 'sim-http10' })
    assert.match(head, /^HTTP\/1\.0 200 OK\r\n/)
    assert.doesNotMatch(head, /content-length|transfer-encoding/)
    assert.doesNotThrow(() => JSON.parse(body.toString()))
    assert.equal(end, 'closed')
  })

  it('has trailers with trailers', async () => {
    const { head, body } = await listen({ model: 'sim-words-10-trailers', stream: true })
    const { text, isEnded, trailer } = dechunk(body)
    assert.match(head, /trailer: x-sim-trailer/)
    assert.equal(isEnded, true)
    assert.equal(trailer, 'x-sim-trailer: late\r\n\r\n')
    assert.equal(wordsOf(eventsOf(text)).length, 10)
  })
})

describe('a fault', () => {
  for (const [name, prompt, completion, isFinished] of [
    ['gzip-false', PROMPT_TOKENS, 5, true],
    ['bigheader', PROMPT_TOKENS, 5, true],
    ['http10', PROMPT_TOKENS, 5, true],
    ['trailers', PROMPT_TOKENS, 5, true],
    ['upgrade', PROMPT_TOKENS, 5, false],
    ['redirect', 0, 0, false],
    ['error-key', 0, 0, false],
    ['status-429-quota', 0, 0, false],
    ['status-429-retry-1', 0, 0, false],
    ['flaky-100', 0, 0, false],
    ['flaky-0', PROMPT_TOKENS, 5, true],
  ] as const) {
    it(`named ${name} is counted as ${prompt}, ${completion}, ${isFinished}, streamed or not`, async () => {
      for (const stream of [false, true]) {
        const id = `counted-${name}-${stream}`
        await listen({ model: `sim-words-5-${name}`, stream, id })
        await assertCounted(id, prompt, completion, isFinished)
      }
    })
  }

  it('of every name leaves the simulator working', async () => {
    const names = Object.keys(FAULTS).map(name => name.replace('status-N', 'status-500').replaceAll('N', '1'))
    const heavy = new Set(['bigerror', 'bigline', 'gzip-bomb'])
    for (const name of names.filter(each => !heavy.has(each))) {
      for (const stream of [false, true]) {
        const socket = connect(simulator.port, '127.0.0.1')
        socket.on('error', () => {})
        const closed = new Promise(resolve => socket.on('close', resolve))
        socket.write(requestBytes({ model: `sim-words-3-${name}`, stream }))
        // This client disconnects in the middle of any response.
        await Promise.race([new Promise(resolve => socket.once('data', resolve)), closed, sleep(20)])
        socket.destroy()
      }
    }
    const response = await fetchChat({ model: 'sim-words-3' })
    assert.equal(((await response.json()) as Event).usage?.completion_tokens, 3)
  })

  it('that never ends is cut off when the simulator is closed', async () => {
    const file = join(folder, 'closed.jsonl')
    const own = await startSimulator({ countFile: file })
    const models = ['sim-hang', 'sim-stall-1']
    const pendingResponses = models.map(model =>
      fetch(own.url + CHAT, {
        method: 'POST',
        headers: { authorization: `Bearer ${KEY}`, 'x-client-request-id': model },
        body: JSON.stringify({ model, stream: true, messages: [{ role: 'user', content: PROMPT }] }),
      }).then(response => response.text()),
    )
    const settled = Promise.allSettled(pendingResponses)
    for (const model of models) await understood(model, own)
    await own.close()
    assert.deepEqual(
      (await settled).map(({ status }) => status),
      ['rejected', 'rejected'],
    )
    const lines = readFileSync(file, 'utf8').trim().split('\n')
    assert.deepEqual(
      lines.map(line => (JSON.parse(line) as CountLine).finished),
      [false, false],
    )
  })
})
