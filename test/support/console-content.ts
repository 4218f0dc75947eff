import type { Api } from './gateway.ts'
import { until } from './process.ts'

/** A gateway with content on every page: channels in several states, tokens, users, prices, and requests. */
export type ConsoleContent = {
  readonly channelId: number
  readonly tokenId: number
  readonly userId: number
  readonly requestId: string
  /** A video that completed, and one that failed and was charged. */
  readonly videoId: string
  readonly failedVideoId: string
}

const MODELS = ['gpt-4o-mini', 'gpt-4o', 'gpt-4.1', 'gpt-4.1-mini', 'sim-small']

async function must(reply: Promise<{ status: number; text: string; body: { data: { id: number } } }>) {
  const { status, text, body } = await reply
  if (status !== 200) throw new Error(`the showroom could not be furnished: ${text}`)
  return body.data
}

/** A model for everything that is not chat, by its public name and the simulated one behind it. */
const MEDIA = {
  'sora-2': 'sim-video',
  'sora-2-pro': 'sim-video-fails',
  'tts-1': 'tts-1',
  'whisper-1': 'whisper-1',
  'gpt-image-1': 'gpt-image-1',
  'omni-moderation-latest': 'omni-moderation-latest',
  'bge-reranker-v2-m3': 'bge-reranker-v2-m3',
} as const

async function film(url: string, key: string, model: string): Promise<string> {
  const response = await fetch(`${url}/v1/videos`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      model,
      prompt: 'A calm lake at dawn, slow camera',
      seconds: '8',
      size: '1280x720',
    }),
  })
  return ((await response.json()) as { id: string }).id
}

async function ask(url: string, key: string, model: string, stream: boolean): Promise<string> {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model, stream, messages: [{ role: 'user', content: `Tell me about ${model}.` }] }),
  })
  await response.text()
  return response.headers.get('x-request-id') ?? ''
}

export async function addContent(url: string, api: Api, simulator: string): Promise<ConsoleContent> {
  const channel = (fields: object) =>
    must(
      api('POST', '/api/channel/', {
        mode: 'single',
        channel: { type: 1, key: 'sk-simulated-key', base_url: simulator, models: MODELS, ...fields },
      }),
    )
  const main = await channel({ name: 'Primary', priority: 10, weight: 3, tag: 'eu' })
  await channel({ name: 'Second in line', priority: 10, weight: 1, tag: 'eu' })
  await channel({ name: 'Under maintenance', status: 2, models: ['gpt-4o'] })
  await channel({
    name: 'Failing',
    priority: 100,
    models: ['gpt-4.1'],
    model_mapping: { 'gpt-4.1': 'sim-status-500' },
  })
  await must(
    api('POST', '/api/channel/', {
      mode: 'multi_to_single',
      channel: {
        name: 'Three keys',
        type: 1,
        key: 'sk-one-111\nsk-two-222\nsk-three-333',
        base_url: simulator,
        models: ['gpt-4o'],
        priority: 5,
      },
    }),
  )
  await channel({
    name: 'Studio',
    models: Object.keys(MEDIA),
    model_mapping: Object.fromEntries(
      Object.entries(MEDIA).filter(([name, sentModel]) => name !== sentModel),
    ),
  })
  const token = (fields: object) =>
    must(api('POST', '/api/token/', fields)) as Promise<{ id: number; key: string }>
  const { key, id: tokenId } = await token({ name: 'search-backend', unlimited_quota: true })
  await token({ name: 'nightly-report', remain_quota: 1_000_000 })
  await token({ name: 'used up', remain_quota: 0 })
  await token({
    name: 'one model only',
    remain_quota: 250_000,
    models: ['gpt-4o'],
    model_limits_enabled: true,
  })
  const user = await must(
    api('POST', '/api/user/', {
      username: 'ana',
      password: 'password of ana',
      display_name: 'Ana',
      quota: 2_500_000,
    }),
  )
  await must(api('POST', '/api/user/', { username: 'boris', password: 'password of boris', role: 10 }))
  await must(api('POST', '/api/alias/', { name: 'house-model', target: 'gpt-4o-mini' }))
  await must(
    api('POST', '/api/alert/target/', {
      name: 'On-call',
      type: 'webhook',
      url: 'http://127.0.0.1:9/hook',
      group_seconds: 0,
    }),
  )
  await must(api('POST', '/api/price/', { model: 'gpt-4.1-mini', input: 0.5, output: 2 }))

  for (const model of ['gpt-4o-mini', 'gpt-4o', 'gpt-4o-mini', 'house-model', 'gpt-4.1-mini'])
    await ask(url, key, model, true)
  const requestId = await ask(url, key, 'gpt-4.1', false)
  const videoId = await film(url, key, 'sora-2')
  const failedVideoId = await film(url, key, 'sora-2-pro')
  for (const id of [videoId, failedVideoId])
    await until(`the end of ${id}`, async () => {
      const { body } = await api('GET', `/api/video/${id}`)
      return ['completed', 'failed'].includes(body.data.status) ? true : undefined
    })
  return { channelId: main.id, tokenId, userId: user.id, requestId, videoId, failedVideoId }
}
