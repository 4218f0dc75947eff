import type { Inquiry, Reply } from './format.ts'
import { answerImages } from './openai-images.ts'
import { decodeRequest, missing } from './openai-request.ts'
import { schemeKey, vendor } from './vendor.ts'

/** `image_size` and `batch_size`, answered in `images`. */
function drawBatch({ id, body }: Inquiry): Reply {
  const { request, model } = decodeRequest(body)
  if (typeof request.image_size !== 'string') throw missing('image_size')
  const n = typeof request.batch_size === 'number' ? request.batch_size : 1
  const images = Array.from({ length: n }, () => ({ url: `https://pictures.example/${id}.png` }))
  const bill = { id, model, promptTokens: 0, units: { images: n } }
  return { kind: 'whole', body: JSON.stringify({ images, timings: {}, seed: 1 }), tokens: 0, bill }
}

/** The common format, with one image per request. */
function drawOne(inquiry: Inquiry): Reply {
  const { n: _, ...request } = JSON.parse(inquiry.body)
  return answerImages({ ...inquiry, body: JSON.stringify(request) })
}

export const siliconflow = vendor('SiliconFlow', schemeKey('Bearer'), [
  { method: 'POST', path: /^\/siliconflow\/v1\/images\/generations$/, answer: drawBatch },
])

export const volcengine = vendor('VolcEngine', schemeKey('Bearer'), [
  { method: 'POST', path: /^\/volcengine\/api\/v3\/images\/generations$/, answer: drawOne },
])
