import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { embeddings } from '../../src/relay/operations/embeddings.ts'
import { chat } from '../../src/relay/operations/openai.ts'
import { JsonError, parseJson } from '../../src/wire/json.ts'
import { topLevel } from '../../src/wire/json-edit.ts'
import { createJsonScanner, SCAN_LIMITS } from '../../src/wire/json-scan.ts'
import { LARGE_BYTES, longText, readJson } from '../../src/wire/json-skim.ts'
import { READ_CONTEXT } from '../support/read-context.ts'

const MB = 1_048_576
const bytesOf = (value: unknown) => Buffer.from(typeof value === 'string' ? value : JSON.stringify(value))
const chatOf = (content: unknown, more = {}) => ({
  model: 'm',
  messages: [{ role: 'user', content }],
  ...more,
})
const refusal = (text: string, pattern: RegExp) =>
  assert.rejects(
    async () => readJson(Buffer.from(text), true),
    (error: Error) => {
      assert.ok(error instanceof JsonError)
      assert.match(error.message, pattern)
      return true
    },
  )
const padded = (text: string) => `{"pad":"${' '.repeat(LARGE_BYTES)}",${text.slice(1)}`

describe('a large body', () => {
  it('is parsed like any other, and has the same members', async () => {
    const text = padded('{ "a" : [1, {"x": "y,}"}] , "b\\u0041":"\\"", "n": -1.5e3 , "t":true,"o":{} }')
    const bytes = Buffer.from(text)
    const { value, members } = await readJson(bytes, true)
    assert.deepEqual(value, parseJson(bytes))
    assert.deepEqual(members, topLevel(bytes))
  })

  it('has its long strings left out for callers that need only their lengths', async () => {
    const body = chatOf([
      { type: 'text', text: 'x'.repeat(2 * MB) },
      { type: 'image_url', image_url: { url: `data:image/png;base64,${'A'.repeat(2 * MB)}` } },
    ])
    const bytes = bytesOf(body)
    const skimmed = (await readJson(bytes, true)).value as typeof body
    const parts = skimmed.messages[0]?.content as { text?: unknown; image_url?: { url: unknown } }[]
    assert.equal(longText(parts[0]?.text)?.bytes, 2 * MB)
    assert.equal(longText(parts[1]?.image_url?.url)?.head.startsWith('data:image/png;base64,'), true)
    assert.deepEqual((await readJson(bytes, false)).value, body)
    assert.deepEqual((await readJson(bytes, true)).members, topLevel(bytes))
  })

  it('has its long lists parsed in parts, without their long strings', async () => {
    const numbered = (count: number) =>
      Array.from({ length: count }, (_, index) => ({ id: `${index} é`, nested: [index, { ok: true }] }))
    const long = 'x'.repeat(5_000)
    const body = {
      first: numbered(20_000),
      short: numbered(3),
      mixed: numbered(20_000).flatMap((value, index) => (index % 5_000 === 0 ? [value, long] : [value])),
      object: { list: numbered(1_000) },
      last: numbered(10_000),
    }
    const text = JSON.stringify(body, (_name, value) => (value === long ? 'short' : value))
    const bytes = bytesOf(body)
    const { value, members } = await readJson(bytes, true)
    const shortened = JSON.stringify(value, (_name, each) =>
      longText(each)?.bytes === long.length ? 'short' : each,
    )
    assert.equal(shortened, text)
    assert.deepEqual(members, topLevel(bytes))
  })

  it('is parsed with a long list under a repeated name', async () => {
    const list = JSON.stringify(Array.from({ length: 60_000 }, (_, index) => `element ${index}`))
    for (const rest of ['1', '{}', '[]', 'null'])
      await readJson(Buffer.from(`{"a":${list},"a":${rest}}`), true)
  })

  it('has the same cost as when it is parsed completely', async () => {
    const bodies = [
      chatOf('x'.repeat(3 * MB), { max_tokens: 5, stream: true }),
      chatOf([{ type: 'input_audio', input_audio: { data: 'A'.repeat(2 * MB) } }]),
      chatOf([{ type: 'file', file: { file_data: `data:application/pdf;base64,${'A'.repeat(2 * MB)}` } }]),
      chatOf([{ type: 'file', file: { file_data: `data:text/plain;base64,${'A'.repeat(2 * MB)}` } }]),
      chatOf(Array.from({ length: 20_000 }, (_, index) => `${index}${'é'.repeat(100)}`)),
    ]
    for (const body of bodies) {
      const bytes = bytesOf(body)
      const { value } = await readJson(bytes, true)
      const skimmed = chat.read(value as Record<string, unknown>, bytes, READ_CONTEXT, undefined)
      const whole = chat.read(body, bytes, READ_CONTEXT, undefined)
      assert.equal(skimmed.inputTokens, whole.inputTokens)
      assert.equal(skimmed.outputTokens(100), whole.outputTokens(100))
      assert.equal(skimmed.isStream, whole.isStream)
    }
    const input = { model: 'm', input: ['a'.repeat(2 * MB), 'b'] }
    const { value } = await readJson(bytesOf(input), true)
    assert.equal(
      embeddings.read(value as Record<string, unknown>, bytesOf(input), READ_CONTEXT, undefined).inputTokens,
      embeddings.read(input, bytesOf(input), READ_CONTEXT, undefined).inputTokens,
    )
  })

  it('is refused if it would stall the parser', async () => {
    await refusal(padded(`{"a":${'['.repeat(200_000)}`), /deeper than 128/)
    const many = (count: number, piece: (index: number) => string) =>
      Array.from({ length: count }, (_, index) => piece(index)).join(',')
    await refusal(`{${many(SCAN_LIMITS.names + 1, index => `"name${index}":1`)}}`, /different names/)
    await refusal(`{${many(SCAN_LIMITS.names + 2, () => '"same":1')}}`, /twice/)
    await refusal(padded(`{"a":${'1'.repeat(1_001)}}`), /digits/)
    await refusal(`[${many(SCAN_LIMITS.values + 1, () => '1')}]`, /values/)
    await refusal(`[${many(SCAN_LIMITS.texts + 1, () => '""')}]`, /strings/)
  })

  it('is refused if it is not JSON or not UTF-8, in a long string too', async () => {
    await refusal(`{"a":"${'x'.repeat(2 * MB)}`, /not valid JSON/)
    await refusal(`{"a":"${'x'.repeat(2 * MB)}" "b":1}`, /not valid JSON/)
    const bad = Buffer.from(`{"a":"${'x'.repeat(2 * MB)}"}`)
    bad[MB] = 0xff
    await assert.rejects(async () => readJson(bad, true), /UTF-8/)
    const control = Buffer.from(`{"a":"${'x'.repeat(2 * MB)}"}`)
    control[MB] = 0x0a
    await assert.rejects(async () => readJson(control, true), /not valid JSON/)
    const escaped = Buffer.from(`{"a":"${'x'.repeat(2 * MB)}"}`)
    escaped.write('\\q', MB)
    await assert.rejects(async () => readJson(escaped, true), /not valid JSON/)
  })

  it('is scanned the same with any chunk boundaries', () => {
    const text = `{"a":"\\\\\\"${'x'.repeat(2_000)}","bc":[{"d":"\\u0022"}],"e":1}`
    const scan = (size: number) => {
      const scanner = createJsonScanner()
      const bytes = Buffer.from(text)
      for (let from = 0; from < bytes.length; from += size) scanner.push(bytes.subarray(from, from + size))
      return scanner.end()
    }
    const whole = scan(1e6)
    assert.equal(whole.cuts.length, 1)
    assert.equal(whole.members.length, 3)
    for (const size of [1, 2, 3, 7, 64]) assert.deepEqual(scan(size), whole)
  })
})
