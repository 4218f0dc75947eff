import { isObject, textOf } from '../json.ts'
import { isSoundName, SOUNDS } from '../sound.ts'
import type { Inquiry, Reply } from './format.ts'
import { PICTURE } from './openai-images.ts'
import { decodeRequest, missing } from './openai-request.ts'
import { schemeKey, vendor } from './vendor.ts'

const GOOD = { status_code: 0, status_msg: 'success' }

/** Audio as hexadecimal text; the voice `broke` causes an insufficient balance error with status 200. */
function speak({ id, body }: Inquiry): Reply {
  const { request, model } = decodeRequest(body)
  const text = textOf(request.text)
  if (!text) throw missing('text')
  const voice = isObject(request.voice_setting) ? request.voice_setting.voice_id : undefined
  const format = isObject(request.audio_setting) ? String(request.audio_setting.format) : 'mp3'
  const characters = [...text].length
  const bill = { id, model, promptTokens: 0, units: { characters } }
  const broke = { base_resp: { status_code: 1008, status_msg: 'insufficient balance' } }
  const sound = SOUNDS[isSoundName(format) ? format : 'mp3'].pieces(2)
  const good = {
    data: { audio: Buffer.concat(sound).toString('hex'), status: 2 },
    extra_info: { audio_length: 2_000, usage_characters: characters },
    base_resp: GOOD,
  }
  return { kind: 'whole', body: JSON.stringify(voice === 'broke' ? broke : good), tokens: 0, bill }
}

function draw({ id, body }: Inquiry): Reply {
  const { request, model } = decodeRequest(body)
  const n = typeof request.n === 'number' ? request.n : 1
  const list = (value: string) => Array.from({ length: n }, () => value)
  const data =
    request.response_format === 'base64'
      ? { image_base64: list(PICTURE) }
      : { image_urls: list(`https://pictures.example/${id}.png`) }
  const bill = { id, model, promptTokens: 0, units: { images: n } }
  return { kind: 'whole', body: JSON.stringify({ id, data, base_resp: GOOD }), tokens: 0, bill }
}

export const minimax = vendor('MiniMax', schemeKey('Bearer'), [
  { method: 'POST', path: /^\/minimax\/v1\/t2a_v2$/, answer: speak },
  { method: 'POST', path: /^\/minimax\/v1\/image_generation$/, answer: draw },
])
