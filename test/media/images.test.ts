import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { sql } from 'kysely'
import { PICTURE } from '../../simulator/formats/openai-images.ts'
import { createIdempotentRequests } from '../../src/relay/intake/repeat.ts'
import { answerPlace, findAnswer } from '../../src/store/records/idempotency.ts'
import { oneEngine } from '../support/gateway.ts'
import { suiteMedia } from '../support/media.ts'
import { startVendor } from '../support/scripted-vendor.ts'

const png = (name = 'a.png') =>
  new File([new Uint8Array(Buffer.from(PICTURE, 'base64'))], name, { type: 'image/png' })

for (const engine of oneEngine('postgres')) {
  describe(`images through the gateway on ${engine}`, () => {
    const media = suiteMedia(engine)

    const draw = (key: string, body: object) =>
      media.api('POST', '/v1/images/generations', { prompt: 'a cat', ...body }, { token: key })

    it('are charged per image, by the number created', async () => {
      const { model } = await media.offer('dall-e-2', { image: 0.02 })
      const { id, sdk } = await media.open()
      const answer = await sdk.images.generate({ model, prompt: 'a cat', n: 3 })
      assert.equal(answer.data?.length, 3)
      assert.match(answer.data?.[0]?.url ?? '', /^https:/)
      const row = await media.rowOf(id)
      assert.deepEqual([row.cost, row.other.images], [60_000_000, 3])
    })

    it('are charged by the requested size and quality', async () => {
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
        [{ quality: 'HD', size: ' 1792X1024' }, 0.12],
        [{ quality: 'hd', size: '1792*1024' }, 0.12],
        [{ quality: 'ｈｄ', size: '01792x1024' }, 0.12],
        [{ quality: 'hd', size: '１７９２x1024' }, 0.12],
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
      // The provider may choose the most expensive option that the request leaves open.
      assert.equal((await draw(key, { model })).status, 429)
      assert.equal((await draw(key, { model, quality: 'standard' })).status, 200)
    })

    it('are charged by the requested resolution', async () => {
      const price = { image: 0.02, variants: [{ when: { resolution: '2k' }, image: 0.07 }] }
      const { model } = await media.offer('dall-e-3', price)
      for (const [fields, cost] of [
        [{ resolution: '2K' }, 70_000_000],
        [{ resolution: '1k' }, 20_000_000],
        [{}, 20_000_000],
      ] as const) {
        const { id, key } = await media.open()
        assert.equal((await draw(key, { model, ...fields })).status, 200)
        assert.equal((await media.rowOf(id)).cost, cost, JSON.stringify(fields))
      }
      const { key } = await media.open()
      const two = await draw(key, { model, resolution: '1k', video_resolution: '2k' })
      assert.deepEqual([two.status, two.body.error.param], [400, 'resolution'])
    })

    it('are charged by what the response reports, if the request leaves it open', async () => {
      const { model } = await media.offer('gpt-image-1', {
        image: 0.01,
        variants: [{ when: { quality: 'high', size: '1024x1024' }, image: 0.16 }],
      })
      const { id, key } = await media.open()
      assert.equal((await draw(key, { model, size: 'auto' })).status, 200)
      assert.equal((await media.rowOf(id)).cost, 160_000_000)
    })

    it('are charged by the token if the price is per token', async () => {
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

    it('are returned as URLs or inline, whichever the model prefers', async () => {
      const { model } = await media.offer('gpt-image-1', { image: 0.01 })
      const { key } = await media.open()
      const inside = await draw(key, { model, response_format: 'b64_json' })
      assert.equal(inside.body?.data[0].b64_json, PICTURE, inside.text)
      const address = await draw(key, { model, response_format: 'url' })
      assert.deepEqual(address.body?.data, [{ url: `data:image/png;base64,${PICTURE}` }])
      const other = await media.offer('dall-e-3', { image: 0.01 })
      const inlineReply = await draw(key, { model: other.model, response_format: 'b64_json' })
      assert.equal(inlineReply.body.data[0].b64_json, PICTURE)
    })

    it('are streamed as partial images', async () => {
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

    it('that are streamed are charged by what the events report, and by their number if no usage is reported', async () => {
      const drawn = async (sentModel: string, price: object) => {
        const { model } = await media.offer(sentModel, { ...price })
        const { id, sdk } = await media.open()
        for await (const _event of await sdk.images.generate({ model, prompt: 'a cat', stream: true }));
        return (await media.rowOf(id)).cost
      }
      const variants = [{ when: { quality: 'high', size: '1024x1024' }, image: 0.16 }]
      assert.equal(await drawn('gpt-image-1', { image: 0.01, variants }), 160_000_000)
      assert.equal(await drawn('dall-e-3', { image: 0.01 }), 10_000_000)
    })

    it('that are streamed are charged too if only a part of them was delivered', async t => {
      const part = { type: 'image_generation.partial_image', size: '1024x1024', b64_json: PICTURE }
      const finished = { type: 'image_generation.completed', size: '1024x1024', b64_json: PICTURE }
      const vendor = await startVendor(({ body }) => {
        const events = body.includes('"n":2') ? [part, finished, part] : [part, part]
        const text = events.map(event => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)
        return { type: 'text/event-stream', body: text }
      })
      t.after(vendor.close)
      const variants = [{ when: { size: '1024x1024' }, image: 0.04 }]
      const price = { image: 0.01, variants }
      const { model } = await media.offer('gpt-image-1', price, { base_url: vendor.url })
      for (const [n, cost] of [
        [1, 40_000_000],
        [2, 80_000_000],
      ] as const) {
        const { id, key } = await media.open()
        await draw(key, { model, n, stream: true, partial_images: 2 })
        assert.equal((await media.rowOf(id)).cost, cost)
      }
    })

    it('whose provider reports no tokens are counted if the price is per token', async () => {
      const { model } = await media.offer('dall-e-3', { input: 5, image_output: 40 })
      const { id, key } = await media.open()
      assert.equal((await draw(key, { model, n: 2 })).status, 200)
      const row = await media.rowOf(id)
      assert.deepEqual([row.other.source, row.other.images, row.other.image_output], ['counted', 2, 2_112])
      assert.ok(row.cost >= 2_112 * 40_000, String(row.cost))
    })

    it('that timed out leave an unresolved charge for the price of all of them', async () => {
      const setting = { timeouts: { first_byte_ms: 200 } }
      const { model } = await media.offer('sim-hang', { image: 0.01 }, { setting })
      const { id, key } = await media.open()
      assert.equal((await draw(key, { model, n: 3 })).status, 504)
      await media.rowOf(id)
      const doubts = await media.suspenseOf(id)
      assert.deepEqual(
        doubts.map(({ amount }) => Number(amount)),
        [30_000_000],
      )
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

    it('can be edited from URLs in JSON', async () => {
      const { model } = await media.offer('gpt-image-1', { image: 0.01 })
      const { key } = await media.open()
      const body = { model, prompt: 'a hat', images: [{ image_url: 'https://example.com/a.png' }] }
      const reply = await media.api('POST', '/v1/images/edits', body, { token: key })
      assert.equal(reply.status, 200, reply.text)
      const many = { ...body, images: Array(17).fill('https://example.com/a.png') }
      const refused = await media.api('POST', '/v1/images/edits', many, { token: key })
      assert.deepEqual([refused.status, refused.body.error.param], [400, 'image'])
    })

    it('in a request are held for as images, not by their bytes', async () => {
      const { model } = await media.offer('gpt-image-1', {
        image_input: 10,
        input: 10,
        max_output_tokens: 100,
      })
      const inside = `data:image/png;base64,${PICTURE}${'A'.repeat(400_000)}`
      const edit = async (remain_quota: number, images: readonly string[]) => {
        const { key } = await media.open({ remain_quota })
        const body = { model, prompt: 'a hat', images: images.map(image_url => ({ image_url })) }
        return (await media.api('POST', '/v1/images/edits', body, { token: key })).status
      }
      // An image is held for at 16,384 tokens of 0.00001 USD, which are 81,920 units.
      assert.equal(await edit(90_000, [inside]), 200)
      assert.equal(await edit(90_000, ['https://example.com/a.png', 'https://example.com/b.png']), 429)
    })

    it('are refused for invalid fields, before anything is sent or held', async () => {
      const { model } = await media.offer('gpt-image-1', { image: 0.01 })
      const { id, key } = await media.open()
      const requestsBefore = await media.seenInAll()
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
        [{ resolution: 'r'.repeat(99) }, 'resolution', 'invalid_parameter'],
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
      assert.equal(await media.seenInAll(), requestsBefore)
      assert.equal(await media.usedBy(id), 0)
    })

    describe('with an Idempotency-Key (docs/reference/relay-api.md: Idempotency on the relay)', () => {
      let keyCount = 0
      const newKey = () => `picture-${engine}-${++keyCount}`
      const ask = (token: string, key: string, body: object, path = '/v1/images/generations') =>
        media.api('POST', path, { prompt: 'a cat', ...body }, { token, headers: { 'idempotency-key': key } })

      it('are created and charged once', async () => {
        const { model } = await media.offer('dall-e-3', { image: 0.01 })
        const { id, key: token } = await media.open()
        const key = newKey()
        const first = await ask(token, key, { model })
        const requestsBefore = await media.seenInAll()
        const second = await ask(token, key, { model })
        assert.deepEqual([second.status, second.text], [200, first.text])
        assert.equal(second.headers.get('idempotency-replayed'), 'true')
        assert.notEqual(second.headers.get('x-request-id'), first.headers.get('x-request-id'))
        assert.equal(await media.seenInAll(), requestsBefore)
        assert.equal((await media.rowsOf(id)).length, 1)
        const other = await ask(token, newKey(), { model })
        assert.notEqual(other.text, first.text)
      })

      it('that are streamed are created and charged once too, and are repeated as they were sent', async () => {
        const { model } = await media.offer('gpt-image-1', { image: 0.01 })
        const { id, key: token } = await media.open()
        const key = newKey()
        const first = await ask(token, key, { model, stream: true })
        const second = await ask(token, key, { model, stream: true })
        assert.deepEqual(
          [second.status, second.text, second.headers.get('content-type')],
          [200, first.text, first.headers.get('content-type')],
        )
        assert.match(first.text, /image_generation\.completed/)
        assert.equal(second.headers.get('idempotency-replayed'), 'true')
        assert.equal((await media.rowsOf(id)).length, 1)
        const cut = await media.offer('sim-eof-1', { image: 0.01 })
        const other = newKey()
        for (let turn = 0; turn < 2; turn += 1) {
          const broken = await ask(token, other, { model: cut.model, stream: true })
          assert.equal(broken.headers.get('idempotency-replayed'), null, broken.text)
        }
      })

      it('from a form are created once, whatever the boundary between its parts', async () => {
        const { model } = await media.offer('gpt-image-1', { image: 0.01 })
        const { id, key: token } = await media.open()
        const send = (key: string, prompt: string) => {
          const form = new FormData()
          form.append('model', model)
          form.append('prompt', prompt)
          form.append('image', png())
          return fetch(`${media.gateway.url}/v1/images/edits`, {
            method: 'POST',
            headers: { authorization: `Bearer ${token}`, 'idempotency-key': key },
            body: form,
          })
        }
        const key = newKey()
        const statuses = [await send(key, 'a hat'), await send(key, 'a hat'), await send(key, 'a coat')]
        assert.deepEqual(
          statuses.map(({ status }) => status),
          [200, 200, 409],
        )
        assert.equal((await media.rowsOf(id)).length, 1)
      })

      it('are refused with another body, while the first request runs, and with an invalid key', async () => {
        const { model } = await media.offer('sim-latency-5000', { image: 0.01 })
        const { id, key: token } = await media.open()
        const key = newKey()
        const replies = await Promise.all(Array.from({ length: 8 }, () => ask(token, key, { model })))
        const statuses = replies.map(({ status }) => status).sort()
        assert.deepEqual(statuses, [200, 409, 409, 409, 409, 409, 409, 409])
        assert.equal(replies.find(({ status }) => status === 409)?.body.error.code, 'idempotency_conflict')
        assert.equal((await ask(token, key, { model, n: 2 })).status, 409)
        assert.equal((await ask(token, 'k'.repeat(256), { model })).status, 400)
        assert.equal((await ask(token, 'a key', { model })).status, 400)
        assert.equal((await media.rowsOf(id)).length, 1)
      })

      it('are stored per user and path', async () => {
        const { model } = await media.offer('dall-e-3', { image: 0.01 })
        const { key: token } = await media.open()
        const key = newKey()
        assert.equal((await ask(token, key, { model })).status, 200)
        const image = 'https://example.com/a.png'
        const edited = await ask(token, key, { model, image }, '/v1/images/edits')
        assert.equal(edited.status, 200, edited.text)
        assert.equal(edited.headers.get('idempotency-replayed'), null)
      })

      it('that failed or were refused before anything was sent can be requested again', async () => {
        const { model } = await media.offer('sim-status-500', { image: 0.01 })
        const { key: token } = await media.open()
        const key = newKey()
        assert.equal((await ask(token, key, { model })).status, 502)
        assert.equal((await ask(token, key, { model, n: 11 })).status, 400)
        assert.notEqual((await ask(token, key, { model })).status, 409)
        const refused = await media.offer('sim-status-422', { image: 0.01 })
        const other = newKey()
        const first = await ask(token, other, { model: refused.model })
        const second = await ask(token, other, { model: refused.model })
        assert.deepEqual([first.status, second.status, second.text], [422, 422, first.text])
        assert.equal(second.headers.get('idempotency-replayed'), 'true')
      })

      it('that a process left unfinished can be requested again', async () => {
        const { model } = await media.offer('dall-e-3', { image: 0.01 })
        const { key: token } = await media.open()
        const key = newKey()
        assert.equal((await ask(token, key, { model })).status, 200)
        // As if the process had died before its response: the key is taken, and no process works on it.
        const { keyring, dataDir } = media.gateway
        const [nodeId = ''] = readdirSync(join(dataDir, 'nodes'))
        const [row] = await media.gateway.db
          .selectFrom('idempotency')
          .selectAll()
          .where('key', '=', key)
          .execute()
        assert.ok(row)
        const place = { table: 'idempotency', row: `${row.user_id} ${row.path} ${key}`, field: 'answer' }
        const sealPending = (node: string) =>
          keyring.seal(JSON.stringify({ pending: node, boot: 'before' }), place)
        const set = (answer_sealed: string) =>
          media.gateway.db.updateTable('idempotency').set({ answer_sealed }).where('key', '=', key).execute()
        await set(sealPending('another node'))
        assert.equal((await ask(token, key, { model })).status, 409)
        await set(sealPending(nodeId))
        assert.equal((await ask(token, key, { model })).status, 200)
      })

      it('that a process left unfinished are requested again by one of several concurrent retries', async () => {
        const { db, keyring } = media.gateway
        const { userId } = await media.gateway.db
          .selectFrom('users')
          .select('id as userId')
          .executeTakeFirstOrThrow()
        const processOf = (boot: string) =>
          createIdempotentRequests({
            db,
            keyring,
            nodeId: 'n',
            boot,
            now: () => Math.floor(Date.now() / 1000),
          })
        const [earlier, later] = [processOf('before'), processOf('now')]
        for (let turn = 0; turn < 60; turn += 1) {
          const repeat = { userId, path: 'POST /v1/images/generations', key: newKey() }
          const abandoned = await earlier.begin(repeat, 'digest')
          const retries = await Promise.allSettled(
            Array.from({ length: 6 }, async () => {
              await delay(Math.random() * 4)
              return later.begin(repeat, 'digest')
            }),
          )
          const claims = retries.flatMap(({ status, ...retry }) =>
            status === 'fulfilled' && 'value' in retry && 'storeAnswer' in retry.value ? [retry.value] : [],
          )
          assert.equal(claims.length, 1)
          // The abandoned request no longer changes the key.
          assert.ok('end' in abandoned)
          await abandoned.end()
          await assert.rejects(later.begin(repeat, 'digest'), { code: 'idempotency_conflict' })
          await claims[0]?.end()
        }
      })

      it('are stored although the master secret was rotated meanwhile', async () => {
        const { db, keyring } = media.gateway
        const { userId } = await db.selectFrom('users').select('id as userId').executeTakeFirstOrThrow()
        const now = () => Math.floor(Date.now() / 1000)
        const requests = createIdempotentRequests({ db, keyring, nodeId: 'n', boot: 'now', now })
        const repeat = { userId, path: 'POST /v1/images/generations', key: newKey() }
        const claim = await requests.begin(repeat, 'digest')
        const place = answerPlace(repeat)
        const row = await findAnswer(db, repeat, now())
        const answer_sealed = keyring.seal(keyring.open(row?.answer_sealed ?? '', place), place)
        await db.updateTable('idempotency').set({ answer_sealed }).where('key', '=', repeat.key).execute()
        assert.ok('storeAnswer' in claim)
        const answer = { status: 200, contentType: 'text/plain', body: Buffer.from('a picture') }
        await claim.storeAnswer(answer)
        assert.deepEqual(await requests.begin(repeat, 'digest'), answer)
      })
    })

    it('fail over to the next channel if the first returns none', async () => {
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

describe('images whose response cannot be stored for their Idempotency-Key', () => {
  const media = suiteMedia('sqlite')
  const ask = (token: string, key: string, body: object) =>
    media.api(
      'POST',
      '/v1/images/generations',
      { prompt: 'a cat', ...body },
      { token, headers: { 'idempotency-key': key } },
    )

  /** Runs `work` while the database refuses these changes of the stored responses. */
  async function whileRefused(changes: readonly ('update' | 'delete')[], work: () => Promise<void>) {
    const { db } = media.gateway
    for (const change of changes)
      await sql
        .raw(
          `create trigger no_${change} before ${change} on idempotency begin select raise(abort, 'the disk is full'); end`,
        )
        .execute(db)
    try {
      await work()
    } finally {
      for (const change of changes) await sql.raw(`drop trigger no_${change}`).execute(db)
    }
  }

  for (const [name, fields] of [
    ['a response', {}],
    ['a stream', { stream: true }],
  ] as const)
    it(`are sent and charged, and the key can be used again: ${name}`, async () => {
      const { model } = await media.offer('gpt-image-1', { image: 0.01 })
      const { id, key: token } = await media.open()
      const key = `unstored ${name}`.replaceAll(' ', '-')
      await whileRefused(['update'], async () => {
        const reply = await ask(token, key, { model, ...fields })
        assert.equal(reply.status, 200, reply.text)
        assert.equal((await media.rowOf(id)).cost, 10_000_000)
      })
      const again = await ask(token, key, { model, ...fields })
      assert.deepEqual([again.status, again.headers.get('idempotency-replayed')], [200, null], again.text)
      assert.equal((await media.rowsOf(id, 2)).length, 2)
    })

  it('are sent and charged too if the key cannot be released', async () => {
    const { model } = await media.offer('dall-e-3', { image: 0.01 })
    const { id, key: token } = await media.open()
    await whileRefused(['update', 'delete'], async () => {
      const reply = await ask(token, 'unreleased', { model })
      assert.equal(reply.status, 200, reply.text)
      assert.equal(reply.body.data.length, 1)
      assert.equal((await media.rowOf(id)).cost, 10_000_000)
    })
  })

  it('are failures with a row of their own, and the error is the same', async () => {
    const rejected = await media.offer('sim-status-422', { image: 0.01 })
    const failed = await media.offer('sim-status-500', { image: 0.01 })
    const { id, key: token } = await media.open()
    await whileRefused(['update', 'delete'], async () => {
      assert.equal((await ask(token, 'rejected', { model: rejected.model })).status, 422)
      assert.equal((await ask(token, 'failed', { model: failed.model })).status, 502)
    })
    assert.deepEqual(
      (await media.rowsOf(id, 2)).map(row => row.other.error_code),
      ['upstream_422', 'upstream_error'],
    )
  })
})
