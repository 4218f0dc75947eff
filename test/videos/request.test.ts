import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import {
  ratioOf,
  readVideoRequest,
  resolutionOf,
  unsupportedWarnings,
  whenOf,
} from '../../src/media/video.ts'

const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNoAAAAggCBd81ytgAAAABJRU5ErkJggg=='

const read = (body: unknown) => readVideoRequest(body, [])
const requestOf = (body: object) => {
  const reading = read({ model: 'm', prompt: 'p', ...body })
  if ('fault' in reading) assert.fail(reading.fault.message)
  return reading.request
}

describe('a request for a video (docs/reference/videos.md: Video request)', () => {
  const good: readonly (readonly [string, object, object])[] = [
    ['a duration in seconds', { duration: 5 }, { seconds: 5 }],
    ['a part of a second', { duration: 0.5 }, { seconds: 0.5 }],
    ['seconds as a text', { seconds: '8' }, { seconds: 8 }],
    ['both names of the length, if they agree', { seconds: '8', duration: 8 }, { seconds: 8 }],
    ['the longest video', { duration: 3_600 }, { seconds: 3_600 }],
    ['sides', { width: 1280, height: 720 }, { width: 1280, height: 720 }],
    ['a size', { size: '720x1280' }, { width: 720, height: 1280 }],
    ['frames a second', { fps: 24 }, { fps: 24 }],
    ['one video unless told otherwise', {}, { n: 1 }],
    ['ten videos', { n: 10 }, { n: 10 }],
    ['a seed, also a negative one', { seed: -7 }, { seed: -7 }],
    ['metadata', { metadata: { style: 'noir' } }, { metadata: { style: 'noir' } }],
    ['metadata as JSON text', { metadata: '{"style":"noir"}' }, { metadata: { style: 'noir' } }],
    ['a user', { user: 'somebody' }, { user: 'somebody' }],
    [
      'an address of a picture',
      { image: 'https://h.example/a.png' },
      { stills: [{ kind: 'url', url: 'https://h.example/a.png' }] },
    ],
    ['one side alone', { width: 1280 }, { width: 1280, height: undefined }],
    [
      'a picture in base64, broken into lines',
      { image: `${PNG.slice(0, 76)}\n${PNG.slice(76)}\n` },
      { stills: [{ kind: 'data', type: 'image/png', base64: PNG }] },
    ],
    ['a picture in base64', { image: PNG }, { stills: [{ kind: 'data', type: 'image/png', base64: PNG }] }],
    [
      'a data address',
      { input_reference: { image_url: `data:image/webp;base64,${PNG}` } },
      { stills: [{ kind: 'data', type: 'image/webp', base64: PNG }] },
    ],
    ['null for what is not set', { seed: null, fps: null, metadata: null, image: null }, { seed: undefined }],
    ['a length in the words of a vendor', { metadata: { durationSeconds: 6 } }, { seconds: 6 }],
    ['a length deep in them', { metadata: { settings: { duration: '10s' } } }, { seconds: 10 }],
    ['frames as a length', { fps: 24, metadata: { num_frames: 121 } }, { seconds: 5 }],
    ['a length said twice', { duration: 6, metadata: { duration: '6' } }, { seconds: 6 }],
    ['unknown fields', { style_preset: 'x' }, { metadata: { style_preset: 'x' } }],
  ]
  for (const [name, body, expected] of good)
    it(`accepts ${name}`, () => {
      const request: Record<string, unknown> = requestOf(body)
      for (const [field, value] of Object.entries(expected)) assert.deepEqual(request[field], value, field)
    })

  it('accepts an image without a prompt, no model, and an empty body: no parameter is required', () => {
    for (const body of [{ image: PNG }, {}, { model: null, prompt: '' }]) {
      const reading = read(body)
      assert.ok('request' in reading)
      assert.equal(reading.request.model, '')
      assert.equal(reading.request.prompt, undefined)
    }
  })

  it('names a dimension that is useless without the other', () => {
    assert.deepEqual(unsupportedWarnings(requestOf({ width: 1280 }), ['width']), [
      'width and height are supported only together',
    ])
    assert.deepEqual(unsupportedWarnings(requestOf({ width: 1280, height: 720 }), ['width']), [])
  })

  const bad: readonly (readonly [object, string])[] = [
    [{ prompt: 5 }, 'prompt'],
    [{ prompt: 'x'.repeat(32_001) }, 'prompt'],
    [{ model: 5 }, 'model'],
    [{ duration: 0 }, 'duration'],
    [{ duration: -1 }, 'duration'],
    [{ duration: 3_601 }, 'duration'],
    [{ duration: 'long' }, 'duration'],
    [{ seconds: '8', duration: 4 }, 'seconds'],
    [{ width: -1 }, 'width'],
    [{ height: 0 }, 'height'],
    [{ height: 'tall' }, 'height'],
    [{ size: '1280x720', width: 720 }, 'size'],
    [{ width: 0, height: 720 }, 'width'],
    [{ width: 12.5, height: 720 }, 'width'],
    [{ width: 8_193, height: 720 }, 'width'],
    [{ size: 'large' }, 'size'],
    [{ size: '0x720' }, 'size'],
    [{ size: '1280x720', width: 720, height: 1280 }, 'size'],
    [{ fps: 0 }, 'fps'],
    [{ fps: 241 }, 'fps'],
    [{ n: 0 }, 'n'],
    [{ n: 11 }, 'n'],
    [{ n: 1.5 }, 'n'],
    [{ seed: 1.5 }, 'seed'],
    [{ seed: 'lucky' }, 'seed'],
    [{ metadata: 'not an object' }, 'metadata'],
    [{ metadata: ['a'] }, 'metadata'],
    [{ metadata: { a: 'x'.repeat(65_536) } }, 'metadata'],
    [{ duration: 5, metadata: { duration: 10 } }, 'metadata'],
    [{ duration: 5, metadata: { settings: { duration: '60s' } } }, 'metadata'],
    [{ duration: 5, metadata: { frames: 289 } }, 'metadata'],
    [{ duration: 5, durationSeconds: 60 }, 'durationSeconds'],
    [{ metadata: { duration: 3_601 } }, 'metadata'],
    [{ metadata: { sampleCount: 4 } }, 'metadata'],
    [{ num_outputs: 2 }, 'num_outputs'],
    [{ image: 'not a picture!' }, 'image'],
    [{ image: 5 }, 'image'],
    [{ image: 'ftp://h.example/a.png' }, 'image'],
    [{ image: 'file:///etc/passwd' }, 'image'],
    [{ images: Array.from({ length: 9 }, () => PNG) }, 'images'],
    [{ user: 'x'.repeat(129) }, 'user'],
    [{ response_format: 5 }, 'response_format'],
  ]
  for (const [body, param] of bad)
    it(`refuses ${JSON.stringify(body).slice(0, 60)}`, () => {
      const reading = read({ model: 'm', prompt: 'p', ...body })
      assert.ok('fault' in reading)
      assert.equal(reading.fault.param, param)
    })

  it('is described in the terms that prices and vendors use', () => {
    const request = requestOf({ width: 1920, height: 1080, metadata: { quality_level: 'high' } })
    assert.equal(ratioOf(request), '16:9')
    assert.equal(resolutionOf(request), '1080p')
    assert.equal(resolutionOf({ width: 3840, height: 2160 }), '4k')
    assert.deepEqual(whenOf(request), { size: '1920x1080', resolution: '1080p', quality: 'high' })
    const metadataRequest = requestOf({
      metadata: { input: { width: 3840, height: 2160, resolution: '2160P' }, ratio: '16:9' },
    })
    assert.deepEqual(whenOf(metadataRequest), { size: '3840x2160', resolution: '4k' })
    assert.deepEqual(whenOf(requestOf({ size: '1280x720', resolution: 'auto' })), {
      size: '1280x720',
      resolution: '720p',
    })
  })
})
