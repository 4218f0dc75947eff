import { isObject } from '../json.ts'
import type { Inquiry, Reply } from './format.ts'
import { decodeRequest, missing } from './openai-request.ts'
import { rank } from './rerank.ts'
import { behind, vendor } from './vendor.ts'

const objectOf = (value: unknown) => (isObject(value) ? value : {})

function rankNative({ id, body }: Inquiry): Reply {
  const { request, model } = decodeRequest(body)
  const { scores, tokens } = rank(JSON.stringify({ model, ...objectOf(request.input) }))
  const results = scores.map((relevance_score, index) => ({ index, relevance_score }))
  const answer = { output: { results }, usage: { total_tokens: tokens }, request_id: `ds-${id}` }
  return { kind: 'whole', body: JSON.stringify(answer), tokens: 0, bill: { id, model, promptTokens: tokens } }
}

/** One picture, whatever is asked. */
function draw({ id, body }: Inquiry): Reply {
  const { request, model } = decodeRequest(body)
  if (!Array.isArray(objectOf(request.input).messages)) throw missing('input')
  const content = [{ image: `https://pictures.example/${id}.png` }]
  const answer = {
    output: { choices: [{ finish_reason: 'stop', message: { role: 'assistant', content } }] },
    usage: { image_count: 1, width: 1024, height: 1024 },
    request_id: id,
  }
  const bill = { id, model, promptTokens: 0, units: { images: 1 } }
  return { kind: 'whole', body: JSON.stringify(answer), tokens: 0, bill }
}

export const dashscope = vendor('DashScope', behind('Bearer'), [
  {
    method: 'POST',
    path: /^\/dashscope\/api\/v1\/services\/rerank\/text-rerank\/text-rerank$/,
    answer: rankNative,
  },
  {
    method: 'POST',
    path: /^\/dashscope\/api\/v1\/services\/aigc\/multimodal-generation\/generation$/,
    answer: draw,
  },
])
