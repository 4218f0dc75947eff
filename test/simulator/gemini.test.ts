import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { type GenerateContentConfig, type GenerateContentResponse, GoogleGenAI, Type } from '@google/genai'
import type { CountLine } from '../../simulator/count.ts'
import { type Simulator, startSimulator } from '../../simulator/server.ts'

const KEY = 'AIza-simulator-gemini-test-1234'

const folder = mkdtempSync(join(tmpdir(), 'simulator-gemini-'))
const countFile = join(folder, 'count.jsonl')
let simulator: Simulator
let models: GoogleGenAI['models']

before(async () => {
  simulator = await startSimulator({ countFile })
  models = new GoogleGenAI({ apiKey: KEY, httpOptions: { baseUrl: simulator.url } }).models
})
after(async () => {
  await simulator.close()
  rmSync(folder, { recursive: true })
})

const WEATHER: GenerateContentConfig = {
  tools: [
    {
      functionDeclarations: [
        {
          name: 'weather',
          parametersJsonSchema: {
            type: 'object',
            properties: { city: { type: 'string' } },
            required: ['city'],
          },
        },
      ],
    },
  ],
}
const THINKING: GenerateContentConfig = { thinkingConfig: { includeThoughts: true, thinkingBudget: 1_024 } }

const ask = (contents: string, config: GenerateContentConfig = {}, model = 'sim-small') =>
  models.generateContent({ model, contents, config })

async function streamed(contents: string, config: GenerateContentConfig = {}, model = 'sim-small') {
  const chunks: GenerateContentResponse[] = []
  for await (const chunk of await models.generateContentStream({ model, contents, config }))
    chunks.push(chunk)
  return chunks
}

const partsOf = (chunks: readonly GenerateContentResponse[]) =>
  chunks.flatMap(({ candidates = [] }) => candidates.flatMap(({ content }) => content?.parts ?? []))

const textOf = (chunks: readonly GenerateContentResponse[]) =>
  partsOf(chunks)
    .map(({ text = '', thought }) => (thought ? '' : text))
    .join('')

function lastLine(): CountLine {
  const line = readFileSync(countFile, 'utf8').trim().split('\n').at(-1)
  assert.ok(line)
  return JSON.parse(line) as CountLine
}

describe('the simulated Gemini', () => {
  it('reads a schema whose types are in capitals', async () => {
    const schema = { type: Type.OBJECT, properties: { size: { type: Type.INTEGER } }, required: ['size'] }
    const { functionCalls } = await ask('weather', {
      tools: [{ functionDeclarations: [{ name: 'weather', parameters: schema }] }],
    })
    assert.deepEqual(functionCalls?.[0]?.args, { size: 1 })
    const { text } = await ask('Hi', { responseMimeType: 'application/json', responseSchema: schema })
    assert.deepEqual(JSON.parse(text ?? ''), { size: 1 })
  })

  it('returns and counts the same, streamed and not', async () => {
    const whole = await ask('Hello')
    const line = lastLine()
    const chunks = await streamed('Hello')
    assert.equal(textOf(chunks), textOf([whole]))
    assert.deepEqual(chunks.at(-1)?.usageMetadata, whole.usageMetadata)
    assert.equal(line.prompt_tokens, whole.usageMetadata?.promptTokenCount)
    assert.equal(line.completion_tokens, whole.usageMetadata?.candidatesTokenCount)
    assert.equal(lastLine().completion_tokens, line.completion_tokens)
    assert.equal(chunks.at(-1)?.candidates?.[0]?.finishReason, 'STOP')
  })

  it('returns thoughts on request, signed, and counts them separately from the candidates', async () => {
    for (const chunks of [[await ask('Hello', THINKING)], await streamed('Hello', THINKING)]) {
      const parts = partsOf(chunks)
      assert.ok(parts.some(({ thought }) => thought))
      assert.ok(parts.some(({ thoughtSignature }) => thoughtSignature))
      const {
        promptTokenCount = 0,
        candidatesTokenCount = 0,
        thoughtsTokenCount = 0,
        totalTokenCount,
      } = chunks.at(-1)?.usageMetadata ?? {}
      assert.ok(thoughtsTokenCount > 0)
      assert.equal(totalTokenCount, promptTokenCount + candidatesTokenCount + thoughtsTokenCount)
      assert.equal(lastLine().completion_tokens, candidatesTokenCount + thoughtsTokenCount)
    }
  })

  it('calls tools, and requires the signature of the call back with its result', async () => {
    const config = { ...WEATHER, ...THINKING }
    const [called] = (await ask('Use the tool', config)).candidates ?? []
    const part = called?.content?.parts?.find(({ functionCall }) => functionCall)
    assert.equal(part?.functionCall?.name, 'weather')
    const loop = (proof: string | undefined) =>
      models.generateContent({
        model: 'sim-small',
        contents: [
          { role: 'user', parts: [{ text: 'Use the tool' }] },
          {
            role: 'model',
            parts: [{ functionCall: part?.functionCall ?? {}, ...(proof && { thoughtSignature: proof }) }],
          },
          { role: 'user', parts: [{ functionResponse: { name: 'weather', response: { output: 'rain' } } }] },
        ],
        config,
      })
    assert.match(textOf([await loop(part?.thoughtSignature)]), /rain/)
    await assert.rejects(loop(undefined), { status: 400 })
  })

  it('follows a schema, and truncates at the limit', async () => {
    const schema = { type: 'object', properties: { age: { type: 'integer' } }, required: ['age'] }
    const json = await ask('Hello', { responseMimeType: 'application/json', responseJsonSchema: schema })
    assert.ok('age' in JSON.parse(textOf([json])))
    const cut = await ask('Hello', { maxOutputTokens: 3 })
    assert.equal(cut.candidates?.[0]?.finishReason, 'MAX_TOKENS')
    assert.equal(cut.usageMetadata?.candidatesTokenCount, 3)
  })

  it('reads fields in snake case', async () => {
    const schema = { type: 'object', properties: { a_size: { type: 'integer' } }, required: ['a_size'] }
    const post = async (method: string, body: object) => {
      const reply = await fetch(`${simulator.url}/v1beta/models/sim-small:${method}`, {
        method: 'POST',
        headers: { 'x-goog-api-key': KEY },
        body: JSON.stringify({ contents: [{ parts: [{ text: 'weather' }] }], ...body }),
      })
      assert.equal(reply.status, 200)
      return (await reply.json()) as GenerateContentResponse & { totalTokens?: number }
    }
    const spelled = ['response_json_schema', 'response_schema'].map(name => ({
      generation_config: { response_mime_type: 'application/json', [name]: schema },
    }))
    for (const body of spelled) {
      const answer = await post('generateContent', body)
      assert.deepEqual(JSON.parse(textOf([answer])), { a_size: 1 })
    }
    const tools = [{ function_declarations: [{ name: 'weather', parameters_json_schema: schema }] }]
    const config = { function_calling_config: { mode: 'ANY', allowed_function_names: ['weather'] } }
    const called = await post('generateContent', { tools, tool_config: config })
    assert.deepEqual(partsOf([called])[0]?.functionCall?.args, { a_size: 1 })
    const limited = await post('generateContent', { generation_config: { max_output_tokens: 2 } })
    assert.equal(limited.candidates?.[0]?.finishReason, 'MAX_TOKENS')
    const plain = await post('countTokens', {})
    const instructed = await post('countTokens', { system_instruction: { parts: [{ text: 'Be brief' }] } })
    assert.ok((instructed.totalTokens ?? 0) > (plain.totalTokens ?? 0))
  })

  it('streams a JSON list to clients that do not request SSE', async () => {
    const response = await fetch(`${simulator.url}/v1beta/models/sim-words-5:streamGenerateContent`, {
      method: 'POST',
      headers: { 'x-goog-api-key': KEY },
      body: JSON.stringify({ contents: [{ parts: [{ text: 'Hello' }] }] }),
    })
    assert.equal(textOf((await response.json()) as GenerateContentResponse[]), 'the quick brown fox jumps')
  })

  it('has the vendor’s error format, also in the middle of a stream', async () => {
    await assert.rejects(ask('Hello', {}, 'sim-status-429'), { status: 429 })
    await assert.rejects(streamed('Hello', {}, 'sim-error-in-stream'), { status: 500 })
    await assert.rejects(models.generateContent({ model: 'sim-small', contents: [] }), /contents/)
  })

  it('counts tokens, makes embeddings and lists its models', async () => {
    const { totalTokens } = await models.countTokens({ model: 'sim-small', contents: 'Hello there' })
    assert.equal(totalTokens, 2)
    const { embeddings } = await models.embedContent({
      model: 'sim-small',
      contents: ['one', 'two'],
      config: { outputDimensionality: 8 },
    })
    assert.deepEqual(
      embeddings?.map(({ values }) => values?.length),
      [8, 8],
    )
    assert.equal(lastLine().prompt_tokens, 2)
    const listed = await models.list()
    assert.ok(listed.page.some(({ name }) => name === 'models/sim-small'))
  })
})
