import { request as httpRequest, type IncomingMessage } from 'node:http'
import OpenAI from 'openai'
import { retryingFetch } from './client.ts'
import { type EngineName, suiteResource } from './gateway.ts'
import { openRelay } from './relay.ts'
import { wavFile } from './wav.ts'

type Fields = Readonly<Record<string, unknown>>

/** A gateway with the simulator for everything that is not chat. */
export async function openMedia(engine: EngineName, env: Readonly<Record<string, string>> = {}) {
  const relay = await openRelay(engine, env)
  let modelCount = 0

  /** A separate model at this price that a simulated model serves. */
  async function offer(sentModel: string, price: Fields, fields: Fields = {}) {
    const model = `media-${++modelCount}`
    const channel = await relay.addChannel({
      name: model,
      models: [model],
      model_mapping: { [model]: sentModel },
      ...fields,
    })
    await relay.must(relay.gateway.api('POST', '/api/price/', { model, ...price }))
    return { model, channel }
  }

  const sdkFor = (apiKey: string) =>
    new OpenAI({ apiKey, baseURL: `${relay.gateway.url}/v1`, maxRetries: 0, fetch: retryingFetch })

  return {
    ...relay,
    offer,
    sdkFor,
    async open(fields: Fields = {}) {
      const { id, key } = await relay.newToken(fields)
      return { id, key, sdk: sdkFor(key) }
    },
    /** Posts a form unchanged. */
    async post(path: string, key: string, form: FormData) {
      const response = await retryingFetch(`${relay.gateway.url}${path}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}` },
        body: form,
      })
      const text = await response.text()
      const isJson = response.headers.get('content-type')?.includes('json')
      return {
        status: response.status,
        headers: response.headers,
        text,
        body: isJson ? JSON.parse(text) : undefined,
      }
    },
  }
}

export type Media = Awaited<ReturnType<typeof openMedia>>

export const soundForm = (fields: Readonly<Record<string, string | readonly string[]>>, file?: File) => {
  const form = new FormData()
  for (const [name, value] of Object.entries(fields))
    for (const each of [value].flat()) form.append(name, each)
  if (file) form.append('file', file)
  return form
}

export const wavOf = (seconds: number, name = 'speech.wav') =>
  new File([new Uint8Array(wavFile(seconds))], name)

/** Requests speech, and returns the response before its content is read. */
export const requestSpeech = (url: string, key: string, model: string): Promise<IncomingMessage> =>
  new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
    httpRequest(`${url}/v1/audio/speech`, { method: 'POST', headers }, resolve)
      .on('error', reject)
      .end(JSON.stringify({ model, input: 'Hello', voice: 'alloy' }))
  })

/** The media gateway of a suite. */
export const suiteMedia = (...options: Parameters<typeof openMedia>): Media =>
  suiteResource(
    () => openMedia(...options),
    media => media.gateway.close(),
  )
