import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { PICTURE } from '../simulator/formats/openai-images.ts'
import { ENGINES } from './support/gateway.ts'
import { type Media, openMedia } from './support/media.ts'

const png = (name = 'a.png') =>
  new File([new Uint8Array(Buffer.from(PICTURE, 'base64'))], name, { type: 'image/png' })

for (const engine of ENGINES) {
  describe(`pictures through the gateway on ${engine}`, () => {
    let media: Media
    before(async () => {
      media = await openMedia(engine)
    })
    after(() => media.gateway.close())

    const draw = (key: string, body: object) =>
      media.api('POST', '/v1/images/generations', { prompt: 'a cat', ...body }, { token: key })

    it('are paid by the picture, as many as were made', async () => {
      const { model } = await media.offer('dall-e-2', { image: 0.02 })
      const { id, sdk } = await media.open()
      const answer = await sdk.images.generate({ model, prompt: 'a cat', n: 3 })
      assert.equal(answer.data?.length, 3)
      assert.match(answer.data?.[0]?.url ?? '', /^https:/)
      const row = await media.rowOf(id)
      assert.deepEqual([row.cost, row.other.images], [60_000_000, 3])
    })

    it('are paid by size and quality, as asked', async () => {
      const price = {
        image: 0.04,
        variants: [
          { when: { quality: 'hd' }, image: 0.08 },
          { when: { quality: 'hd', size: '1792x1024' }, image: 0.12 },
        ],
      }
      const cases: [object, number][] = [
        [{ size: '1024x1024' }, 0.04],
        [{ quality: 'hd', size: '1024x1024' }, 0.08],
        [{ quality: 'hd', size: '1792x1024' }, 0.12],
        [{ quality: 'standard', size: '1792x1024' }, 0.04],
        [{}, 0.04],
      ]
      const { model } = await media.offer('dall-e-3', price)
      for (const [fields, usd] of cases) {
        const { id, key } = await media.open()
        assert.equal((await draw(key, { model, ...fields })).status, 200)
        assert.equal((await media.rowOf(id)).cost, usd * 1e9, JSON.stringify(fields))
      }
      const { key } = await media.open({ remain_quota: 0.11 * 500_000 })
      // The provider may choose the dearest that is left open.
      assert.equal((await draw(key, { model })).status, 429)
      assert.equal((await draw(key, { model, quality: 'standard' })).status, 200)
    })

    it('are paid by what the answer says was made, where the request leaves it open', async () => {
      const { model } = await media.offer('gpt-image-1', {
        image: 0.01,
        variants: [{ when: { quality: 'high', size: '1024x1024' }, image: 0.16 }],
      })
      const { id, key } = await media.open()
      assert.equal((await draw(key, { model, size: 'auto' })).status, 200)
      assert.equal((await media.rowOf(id)).cost, 160_000_000)
    })

    it('are paid by the token where the price says so', async () => {
      const { model } = await media.offer('gpt-image-1', {
        input: 5,
        image_input: 10,
        output: 1,
        image_output: 40,
      })
      const { id, sdk } = await media.open()
      const answer = await sdk.images.generate({ model, prompt: 'a siamese cat' })
      const { input_tokens = 0, output_tokens = 0 } = answer.usage ?? {}
      const row = await media.rowOf(id)
      assert.equal(row.cost, input_tokens * 5_000 + output_tokens * 40_000)
      assert.equal(row.other.image_output, output_tokens)
    })

    it('come as addresses or inside, whatever the model likes better', async () => {
      const { model } = await media.offer('gpt-image-1', { image: 0.01 })
      const { key } = await media.open()
      const inside = await draw(key, { model, response_format: 'b64_json' })
      assert.equal(inside.body?.data[0].b64_json, PICTURE, inside.text)
      const address = await draw(key, { model, response_format: 'url' })
      assert.deepEqual(address.body?.data, [{ url: `data:image/png;base64,${PICTURE}` }])
      const other = await media.offer('dall-e-3', { image: 0.01 })
      const asked = await draw(key, { model: other.model, response_format: 'b64_json' })
      assert.equal(asked.body.data[0].b64_json, PICTURE)
    })

    it('stream, in parts', async () => {
      const { model } = await media.offer('gpt-image-1', { input: 5, image_output: 40 })
      const { id, sdk } = await media.open()
      const stream = await sdk.images.generate({ model, prompt: 'a cat', stream: true, partial_images: 1 })
      const types: string[] = []
      for await (const event of stream) types.push(event.type)
      assert.deepEqual(types, ['image_generation.partial_image', 'image_generation.completed'])
      const row = await media.rowOf(id)
      assert.equal(row.other.image_output, 272)
      assert.equal(row.other.images, 1)
    })

    it('can be edited and varied, from files', async () => {
      const { model } = await media.offer('gpt-image-1', { input: 5, image_input: 10, image_output: 40 })
      const { id, sdk } = await media.open()
      const edited = await sdk.images.edit({
        model,
        prompt: 'a hat',
        image: [png(), png('b.png')],
        mask: png('mask.png'),
      })
      assert.equal(edited.data?.length, 1)
      const row = await media.rowOf(id)
      assert.equal(row.other.image, 900)
      const varied = await sdk.images.createVariation({ model, image: png(), n: 2 })
      assert.equal(varied.data?.length, 2)
      assert.equal((await media.rowsOf(id, 2)).length, 2)
    })

    it('can be edited from addresses in JSON', async () => {
      const { model } = await media.offer('gpt-image-1', { image: 0.01 })
      const { key } = await media.open()
      const body = { model, prompt: 'a hat', images: [{ image_url: 'https://example.com/a.png' }] }
      const reply = await media.api('POST', '/v1/images/edits', body, { token: key })
      assert.equal(reply.status, 200, reply.text)
    })

    it('refuse what makes no sense, before anything is sent or held', async () => {
      const { model } = await media.offer('gpt-image-1', { image: 0.01 })
      const { id, key } = await media.open()
      const seen = await media.seenInAll()
      const cases: [object, string, string][] = [
        [{ model: undefined }, 'model', 'missing_parameter'],
        [{ prompt: undefined }, 'prompt', 'missing_parameter'],
        [{ prompt: 7 }, 'prompt', 'invalid_parameter'],
        [{ prompt: 'x'.repeat(32_001) }, 'prompt', 'invalid_parameter'],
        [{ n: 0 }, 'n', 'invalid_parameter'],
        [{ n: 11 }, 'n', 'invalid_parameter'],
        [{ n: '2' }, 'n', 'invalid_parameter'],
        [{ size: 7 }, 'size', 'invalid_parameter'],
        [{ quality: 'q'.repeat(99) }, 'quality', 'invalid_parameter'],
        [{ response_format: 'png' }, 'response_format', 'invalid_parameter'],
        [{ partial_images: 4 }, 'partial_images', 'invalid_parameter'],
        [{ stream: 'yes' }, 'stream', 'invalid_parameter'],
      ]
      for (const [fields, param, code] of cases) {
        const { status, body } = await draw(key, { model, ...fields })
        assert.deepEqual([status, body.error.param, body.error.code], [400, param, code])
      }
      const form = new FormData()
      form.append('model', model)
      form.append('prompt', 'a hat')
      const noImage = await media.post('/v1/images/edits', key, form)
      assert.deepEqual([noImage.status, noImage.body.error.param], [400, 'image'])
      form.append('image', new File([], 'empty.png'))
      assert.equal((await media.post('/v1/images/edits', key, form)).status, 400)
      assert.equal(await media.seenInAll(), seen)
      assert.equal(await media.usedBy(id), 0)
    })

    it('go to the next channel when the first gives none', async () => {
      for (const fault of ['html', 'badjson', 'array', 'status-500']) {
        const { model } = await media.offer(`sim-${fault}`, { image: 0.01 }, { priority: 9 })
        await media.addChannel({ models: [model], model_mapping: { [model]: 'dall-e-3' }, priority: 1 })
        const { id, key } = await media.open()
        assert.equal((await draw(key, { model })).status, 200, fault)
        assert.equal((await media.rowOf(id)).cost, 10_000_000)
      }
    })
  })
}

describe('very large pictures', () => {
  let media: Media
  before(async () => {
    media = await openMedia('sqlite')
  })
  after(() => media.gateway.close())

  it('pass up to 64 MiB, and are no answer beyond', async () => {
    const { model } = await media.offer('sim-words-40', { image: 0.01 })
    const large = await media.offer('sim-words-80', { image: 0.01 })
    const { id, key } = await media.open()
    const body = { prompt: 'a cat', response_format: 'b64_json' }
    const reply = await media.api('POST', '/v1/images/generations', { ...body, model }, { token: key })
    assert.equal(reply.status, 200)
    assert.equal(reply.body.data[0].b64_json.length, 40 * 1_048_576)
    const none = await media.api(
      'POST',
      '/v1/images/generations',
      { ...body, model: large.model },
      { token: key },
    )
    assert.deepEqual([none.status, none.body.error.code], [502, 'upstream_error'])
    const rows = await media.rowsOf(id, 2)
    assert.deepEqual(
      rows.map(({ cost }) => cost),
      [10_000_000, 0],
    )
  })
})
