import { fieldIn, readForm } from '../form.ts'
import { textOf, type WireObject } from '../json.ts'
import { ProviderError } from '../provider-error.ts'
import { steer } from '../steering.ts'
import { countTokens } from '../tokens.ts'
import type { Inquiry, Reply, StreamFrame } from './format.ts'
import { decodeCount, decodeRequest, missing } from './openai-request.ts'
import { EVENT_STREAM, eventOf } from './openai-stream.ts'

/** The smallest image: one grey pixel. */
export const PICTURE =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNoAAAAggCBd81ytgAAAABJRU5ErkJggg=='

const OUTPUT_TOKENS = 272
const INPUT_IMAGE_TOKENS = 300
const PIECE = 'A'.repeat(1_048_576)

const isInside = (model: string) => /^(chat)?gpt-image/.test(model)

type ImageRequest = { readonly request: WireObject; readonly model: string; readonly pictures: number }

/** An image, or as many megabytes as the model's name has in `words`. */
function pictureOf(model: string): string {
  const megabytes = steer('words', {}, model)
  return megabytes === undefined ? PICTURE : PIECE.repeat(megabytes)
}

function answer({ id, time }: Inquiry, { request, model, pictures }: ImageRequest, task: string): Reply {
  const n = decodeCount(request, 'n', 10) ?? 1
  const prompt = textOf(request.prompt) ?? ''
  if (isInside(model) && request.response_format !== undefined)
    throw new ProviderError('bad_value', "Unknown parameter: 'response_format'.", 'response_format')
  const promptTokens = countTokens(prompt)
  const usage = {
    input_tokens: promptTokens + pictures * INPUT_IMAGE_TOKENS,
    input_tokens_details: { text_tokens: promptTokens, image_tokens: pictures * INPUT_IMAGE_TOKENS },
    output_tokens: OUTPUT_TOKENS * n,
    total_tokens: promptTokens + pictures * INPUT_IMAGE_TOKENS + OUTPUT_TOKENS * n,
  }
  const details = isInside(model) ? { size: '1024x1024', quality: 'high', output_format: 'png', usage } : {}
  const bill = { id: `img-${id}`, model, promptTokens, units: { images: n } }
  if (request.stream === true)
    return { kind: 'stream', contentType: EVENT_STREAM, frames: events(task, details), bill }
  const wantsAddress = !isInside(model) && request.response_format !== 'b64_json'
  const picture = wantsAddress
    ? { url: `https://pictures.example/${id}.png`, revised_prompt: prompt }
    : { b64_json: pictureOf(model) }
  const body = JSON.stringify({
    created: Math.floor(time.getTime() / 1000),
    ...details,
    data: Array.from({ length: n }, () => picture),
  })
  return { kind: 'whole', body, tokens: OUTPUT_TOKENS * n, bill }
}

function* events(task: string, details: object): Generator<StreamFrame> {
  yield {
    data: eventOf({ type: `${task}.partial_image`, partial_image_index: 0, b64_json: PICTURE }),
    tokens: 100,
  }
  yield { data: eventOf({ type: `${task}.completed`, b64_json: PICTURE, ...details }), tokens: OUTPUT_TOKENS }
}

export function answerImages(inquiry: Inquiry): Reply {
  const { request, model } = decodeRequest(inquiry.body)
  if (textOf(request.prompt) === undefined) throw missing('prompt')
  return answer(inquiry, { request, model, pictures: 0 }, 'image_generation')
}

/** A form with images, or JSON with their URLs. */
export function answerImageEdits(inquiry: Inquiry): Reply {
  if (inquiry.body !== '') {
    const { request, model } = decodeRequest(inquiry.body)
    const pictures = Array.isArray(request.images) ? request.images.length : 1
    return answer(inquiry, { request, model, pictures }, 'image_edit')
  }
  const form = readForm(inquiry.bytes, inquiry.headers)
  const model = fieldIn(form, 'model')
  if (!model) throw missing('model')
  const files = [...form.files.values()].flat()
  if (files.length === 0) throw missing('image')
  const n = fieldIn(form, 'n')
  const request = {
    ...Object.fromEntries([...form.fields].map(([name, values]) => [name, values.at(-1)])),
    ...(n && { n: Number(n) }),
    stream: fieldIn(form, 'stream') === 'true',
  }
  return answer(inquiry, { request, model, pictures: files.length }, 'image_edit')
}
