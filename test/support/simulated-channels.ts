import assert from 'node:assert/strict'
import type { Api } from './gateway.ts'

export const models = { openai: 'gpt-4o', anthropic: 'claude-sonnet-4-5', bedrock: 'us.amazon.nova-pro-v1:0' }
/** The simulator streams it for a second. */
export const SLOW = 'sim-words-20-pace-50'

/** Creates channels of three formats and a token. Returns the token. */
export async function setUpChannels(api: Api, simulatorUrl: string): Promise<string> {
  const key = 'k'
  for (const channel of [
    { name: 'openai', type: 8, key, base_url: simulatorUrl, models: [models.openai, SLOW] },
    { name: 'anthropic', type: 14, key, base_url: `${simulatorUrl}/anthropic`, models: [models.anthropic] },
    {
      name: 'bedrock',
      type: 33,
      key: 'AKIAEXAMPLE|secret|us-east-1',
      base_url: `${simulatorUrl}/bedrock`,
      models: [models.bedrock],
    },
  ]) {
    const { status, text } = await api('POST', '/api/channel/', { mode: 'single', channel })
    assert.equal(status, 200, text)
  }
  for (const model of [models.bedrock, SLOW])
    assert.equal((await api('POST', '/api/price/', { model, input: 1, output: 1 })).status, 200)
  const { body } = await api('POST', '/api/token/', { name: 'test', remain_quota: 5_000_000 })
  return body.data.key ?? body.data.token ?? body.data
}

export const chat = (model: string, content: string, more: object = {}) => ({
  model,
  max_tokens: 50,
  messages: [{ role: 'user', content }],
  ...more,
})
