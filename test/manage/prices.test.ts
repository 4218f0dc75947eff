import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { shippedModels } from '../../src/providers/prices/shipped.ts'
import { activateDuePrices, findPriceInForce, pricesInForce } from '../../src/store/records/prices.ts'
import { oneEngine } from '../support/engines.ts'
import { suiteGateway } from '../support/gateway.ts'

const nowS = () => Math.floor(Date.now() / 1000)
const HOUR_S = 3600

for (const engine of oneEngine('sqlite')) {
  describe(`prices on ${engine} (docs/reference/money.md: Prices)`, () => {
    const gateway = suiteGateway({ engine })

    const post = (body: object) => gateway.api('POST', '/api/price/', body)
    const make = async (body: object) => {
      const { status, body: answer, text } = await post(body)
      assert.equal(status, 200, text)
      return answer.data
    }
    const list = async (query: string) => (await gateway.api('GET', `/api/price/?${query}`)).body.data
    const inForce = async (model: string) => (await list(`model=${model}`)).items[0]
    const history = async (model: string) =>
      (await gateway.api('GET', `/api/price/history?model=${model}`)).body.data

    it('are listed only for models in use on request: those by which enabled channels are charged', async () => {
      const add = (fields: object) =>
        gateway.api('POST', '/api/channel/', { channel: { type: 1, key: 'k', name: 'in use', ...fields } })
      await make({ model: 'used-custom', input: 1 })
      await make({ model: 'unused-custom', input: 1 })
      await add({
        models: ['used-custom', 'gpt-4o', 'used-mapped', 'used-unpriced'],
        model_mapping: { 'used-mapped': 'gpt-4.1' },
      })
      await add({ models: ['gpt-4.1-mini'], status: 2 })
      const used = async (query = '') =>
        (await list(`in_use=true&page_size=100${query}`)).items.map(({ model }: { model: string }) => model)
      assert.deepEqual(await used(), ['gpt-4.1', 'gpt-4o', 'used-custom'])
      assert.deepEqual(await used('&source=admin'), ['used-custom'])
      assert.deepEqual(await used('&keyword=GPT-4O'), ['gpt-4o'])
      const second = await list('in_use=true&page_size=2&p=2')
      assert.deepEqual([second.total, second.items.length], [3, 1])
    })

    it('have numbered versions, and the list contains the one in force', async () => {
      const first = await make({ model: 'counted', input: 1, output: 2 })
      const second = await make({ model: 'counted', input: 3, output: 4 })
      assert.deepEqual([first.version, second.version], [1, 2])
      assert.ok(second.id > first.id)
      const { items, total } = await list('model=counted')
      assert.equal(total, 1)
      assert.equal(items[0].id, second.id)
      assert.equal(items[0].input, 3)
      assert.equal(items[0].source, 'admin')
      assert.deepEqual(items[0].author, { id: 1, username: 'root' })
      assert.ok(Math.abs(items[0].effective_time - nowS()) < 60)
    })

    it('are changed together in the given fields only; an invalid one does not affect the others', async () => {
      await make({
        model: 'tiered',
        input: 1,
        output: 2,
        tiers: [{ input_over: 1000, input: 5 }],
        unit_note: 'kept',
      })
      const body = {
        prices: [
          { model: 'tiered', input: 1.5, output: null },
          { model: 'brand-new', per_call: 0.01 },
          { model: 'wrong', input: -1 },
        ],
      }
      const put = (more: object = {}) => gateway.api('PUT', '/api/price/batch', { ...body, ...more })
      const dry = (await put({ dry_run: true })).body.data
      assert.deepEqual(
        dry.map(({ is_changed, code }: { is_changed: boolean; code: string }) => [is_changed, code]),
        [
          [true, ''],
          [true, ''],
          [false, 'invalid_request'],
        ],
      )
      assert.equal((await inForce('tiered')).input, 1)
      assert.deepEqual((await put()).body.data, dry)
      const { input, output, tiers, unit_note, version } = await inForce('tiered')
      assert.deepEqual([input, output, unit_note, version], [1.5, undefined, 'kept', 2])
      assert.deepEqual(tiers, [{ input_over: 1000, input: 5 }])
      assert.equal((await inForce('brand-new')).per_call, 0.01)
      const again = (await put()).body.data
      assert.deepEqual(
        again.map(({ is_changed }: { is_changed: boolean }) => is_changed),
        [false, false, false],
      )
      assert.equal((await inForce('tiered')).version, 2)
      const twice = { prices: [body.prices[0], body.prices[0]] }
      assert.equal((await put(twice)).body.errors[0].path, 'prices')
    })

    it('of tools are returned as they were set, and are changed one by one', async () => {
      const tools = { web_search: 0.01, code_interpreter: 0.03 }
      const createdPrice = await make({ model: 'tooled', input: 1, output: 2, tools })
      assert.deepEqual([createdPrice.tools, createdPrice.per_search], [tools, 0.01])
      const change = async (fields: object) => {
        const prices = [{ model: 'tooled', ...fields }]
        const { body } = await gateway.api('PUT', '/api/price/batch', { prices })
        assert.equal(body.data[0].code, '', body.data[0].message)
        return (await inForce('tooled')).tools
      }
      assert.deepEqual(await change({ tools: { file_search: 0.0025 } }), { ...tools, file_search: 0.0025 })
      assert.deepEqual(await change({ tools: { web_search: 0.02, file_search: null } }), {
        ...tools,
        web_search: 0.02,
      })
      assert.deepEqual(await change({ per_search: 0.05 }), { ...tools, web_search: 0.05 })
      assert.deepEqual(await change({ tools: { web_search: null } }), { code_interpreter: 0.03 })
      const wrong = await gateway.api('POST', '/api/price/', {
        model: 'tooled',
        input: 1,
        tools: { web_search: -1 },
      })
      assert.deepEqual([wrong.status, wrong.body.errors[0].path], [400, 'tools.web_search'])
    })

    it('are multiplied by a factor to the picodollar, tiers included', async () => {
      await make({ model: 'scaled', input: 0.000003, output: 2, tiers: [{ input_over: 1000, input: 5 }] })
      const multiply = (body: object) => gateway.api('POST', '/api/price/multiply', body)
      const { body } = await multiply({ models: ['scaled', 'never-priced', 'scaled'], factor: 1.5 })
      assert.deepEqual(
        body.data.map(({ model, is_changed, code }: Record<string, unknown>) => [model, is_changed, code]),
        [
          ['scaled', true, ''],
          ['never-priced', false, 'not_found'],
        ],
      )
      const { input, output, tiers } = await inForce('scaled')
      // 4.5 picodollars are 5: rounded to the nearest, half up.
      assert.deepEqual([input, output, tiers], [0.000005, 3, [{ input_over: 1000, input: 7.5 }]])
      const [shippedModel = ''] = shippedModels()
      const dry = (await multiply({ models: [shippedModel], factor: 2, dry_run: true })).body.data
      assert.equal(dry[0].is_changed, true)
      assert.equal((await inForce(shippedModel)).source, 'shipped')
      for (const [factor, models] of [
        [0, ['scaled']],
        [1.0000001, ['scaled']],
        [2, []],
      ]) {
        const reply = await multiply({ models, factor })
        assert.equal(reply.status, 400, reply.text)
      }
      await make({ model: 'dearest', per_call: 999 })
      const tooDear = (await multiply({ models: ['dearest'], factor: 2 })).body.data[0]
      assert.deepEqual([tooDear.is_changed, tooDear.code], [false, 'invalid_request'])
    })

    it('are returned in the dollars they were set in', async () => {
      const price = {
        input: 0.1,
        output: 0.000001,
        cached_input: 0.05,
        cache_write: 1.25,
        cache_write_1h: 2,
        reasoning: 4.4,
        audio_input: 40,
        audio_output: 80,
        per_search: 0.005,
        max_output_tokens: 65536,
        unit_note: 'as listed',
        tiers: [{ input_over: 200000, input: 0.2, output: 0.5 }],
      }
      const createdPrice = await make({ model: 'whole', ...price })
      for (const [name, value] of Object.entries(price)) assert.deepEqual(createdPrice[name], value, name)
      assert.equal(createdPrice.quota_type, 0)

      const picture = await make({
        model: 'picture',
        per_image: 0.04,
        variants: [{ when: { size: '1024x1792', quality: 'hd' }, image: 0.12 }],
      })
      assert.equal(picture.image, 0.04)
      assert.equal('per_image' in picture, false)
      assert.deepEqual(picture.variants, [{ when: { size: '1024x1792', quality: 'hd' }, image: 0.12 }])
      assert.equal(picture.quota_type, 1)
      assert.equal((await inForce('picture')).image, 0.04)
    })

    it('treat null as absent, and ignore read-only fields', async () => {
      const createdPrice = await make({
        model: 'nulls',
        id: 77,
        version: 9,
        source: 'shipped',
        author: null,
        input: 1,
        output: null,
        tiers: null,
        effective_time: null,
      })
      assert.equal(createdPrice.version, 1)
      assert.equal('output' in createdPrice, false)
      assert.equal('tiers' in createdPrice, false)
    })

    it('are refused with the invalid field, and nothing is written', async () => {
      const wrong: readonly (readonly [object, string])[] = [
        [{ input: 1 }, 'model'],
        [{ model: '  ', input: 1 }, 'model'],
        [{ model: 'bad' }, 'body'],
        [{ model: 'bad', max_output_tokens: 100 }, 'body'],
        [{ model: 'bad', input: '1' }, 'input'],
        [{ model: 'bad', input: -1 }, 'input'],
        [{ model: 'bad', input: 0.0000001 }, 'input'],
        [{ model: 'bad', output: 1e15 }, 'output'],
        [{ model: 'bad', per_call: 1, input: 1 }, 'per_call'],
        [{ model: 'bad', per_second: 1, per_minute: 1 }, 'per_minute'],
        [{ model: 'bad', image: 1, per_image: 2 }, 'per_image'],
        [{ model: 'bad', input: 1, max_output_tokens: 1.5 }, 'max_output_tokens'],
        [{ model: 'bad', input: 1, tiers: [{ input_over: 10, input: -1 }] }, 'tiers.0.input'],
        [{ model: 'bad', input: 1, tiers: [{ input: 2 }] }, 'tiers.0.input_over'],
        [{ model: 'bad', image: 1, variants: [{ when: {}, image: 2 }] }, 'variants.0.when'],
        [
          { model: 'bad', input: 1, variants: [{ when: { service_tier: 'auto' }, input: 2 }] },
          'variants.0.when.service_tier',
        ],
        [
          { model: 'bad', input: 1, variants: [{ when: { inference_geo: 'US' }, input: 2 }] },
          'variants.0.when.inference_geo',
        ],
        [{ model: 'bad', input: 1, effective_time: nowS() - HOUR_S }, 'effective_time'],
        [{ model: 'bad', input: 1, effective_time: 1.5 }, 'effective_time'],
      ]
      for (const [body, path] of wrong) {
        const { status, body: answer, text } = await post(body)
        assert.equal(status, 400, `${JSON.stringify(body)} → ${text}`)
        assert.equal(answer.code, 'invalid_request')
        assert.equal(answer.errors[0].path, path, text)
      }
      assert.equal((await history('bad')).total, 0)
    })

    it('may start later, and apply from that time on', async () => {
      const later = nowS() + HOUR_S
      await make({ model: 'later', input: 1 })
      const future = await make({ model: 'later', input: 2, effective_time: later })
      assert.equal(future.effective_time, later)
      assert.equal((await inForce('later')).input, 1)
      assert.equal((await findPriceInForce(gateway.db, 'later', later - 1))?.version, 1)
      assert.equal((await findPriceInForce(gateway.db, 'later', later))?.version, 2)
      assert.equal((await pricesInForce(gateway.db, later)).get('later')?.id, future.id)
    })

    it('apply by the latest start time, whichever version was created last', async () => {
      const later = nowS() + HOUR_S
      await make({ model: 'order', input: 1, effective_time: later })
      await make({ model: 'order', input: 2 })
      assert.equal((await inForce('order')).input, 2)
      assert.equal((await findPriceInForce(gateway.db, 'order', later))?.version, 1)
      assert.equal((await pricesInForce(gateway.db, later)).get('order')?.version, 1)

      await make({ model: 'order', input: 3, effective_time: later })
      assert.equal((await findPriceInForce(gateway.db, 'order', later))?.version, 3)
      assert.equal((await pricesInForce(gateway.db, later)).get('order')?.version, 3)
    })

    it('stay in force when the clock is set back', async () => {
      const now = nowS()
      const later = now + HOUR_S
      await make({ model: 'jump', input: 1 })
      const earlier = async () => {
        const price = await findPriceInForce(gateway.db, 'jump', now - HOUR_S)
        assert.equal((await pricesInForce(gateway.db, now - HOUR_S)).get('jump')?.version, price?.version)
        return price?.version
      }
      assert.equal(await earlier(), 1)
      await make({ model: 'jump', input: 2, effective_time: later })
      assert.equal(await earlier(), 1)
      await activateDuePrices(gateway.db, later)
      assert.equal(await earlier(), 2, 'its moment had come before the clock went back')
      await make({ model: 'jump', input: 3 })
      assert.equal(await earlier(), 3, 'a version that is written now follows all that were in force')
    })

    it('take effect in order of their times, even if saved late', async () => {
      const later = nowS() + HOUR_S
      await make({ model: 'late', input: 1, effective_time: later + 2 })
      await make({ model: 'late', input: 2, effective_time: later + 1 })
      await activateDuePrices(gateway.db, later + 10)
      assert.equal((await findPriceInForce(gateway.db, 'late', 0))?.version, 1)
    })

    it('with a start time that has just passed apply from now on', async () => {
      const requestedTime = nowS() - 10
      const { effective_time } = await make({ model: 'just', input: 1, effective_time: requestedTime })
      assert.ok(effective_time > requestedTime)
    })

    it('are numbered without gaps or repeats when several are created at once', async () => {
      const createdPrices = await Promise.all(
        Array.from({ length: 8 }, (_, n) => make({ model: 'rush', input: n })),
      )
      assert.deepEqual(createdPrices.map(price => price.version).sort(), [1, 2, 3, 4, 5, 6, 7, 8])
    })

    it('end together, by the id of any version, and the shipped price applies again', async () => {
      const shipped = await inForce('gpt-4o-mini')
      assert.equal(shipped.source, 'shipped')
      const first = await make({ model: 'gpt-4o-mini', input: 9, output: 9 })
      await make({ model: 'gpt-4o-mini', input: 10, output: 10 })
      await make({ model: 'gpt-4o-mini', input: 11, output: 11, effective_time: nowS() + HOUR_S })
      assert.equal((await inForce('gpt-4o-mini')).input, 10)

      const ended = await gateway.api('DELETE', `/api/price/${first.id}`)
      assert.equal(ended.status, 200)
      assert.deepEqual(await inForce('gpt-4o-mini'), shipped)
      assert.equal(await findPriceInForce(gateway.db, 'gpt-4o-mini', nowS() + 2 * HOUR_S), undefined)
      assert.equal((await gateway.api('DELETE', `/api/price/${first.id}`)).status, 404)
    })

    it('keep their history after the end, newest first, and continue the version numbers', async () => {
      const first = await make({ model: 'kept', input: 1 })
      await make({ model: 'kept', input: 2 })
      await gateway.api('DELETE', `/api/price/${first.id}`)
      assert.equal((await list('model=kept')).total, 0)
      const third = await make({ model: 'kept', input: 3 })
      assert.equal(third.version, 3)

      const { items, total } = await history('kept')
      assert.equal(total, 3)
      assert.deepEqual(
        items.map((row: { version: number }) => row.version),
        [3, 2, 1],
      )
      assert.equal(items[0].ended_time, null)
      assert.ok(Math.abs(items[1].ended_time - nowS()) < 60)
      assert.equal(items[2].input, 1)

      // The id of a version that has ended identifies the model as well.
      assert.equal((await gateway.api('DELETE', `/api/price/${first.id}`)).status, 200)
      assert.equal((await history('kept')).items[0].version, 3)
      assert.notEqual((await history('kept')).items[0].ended_time, null)
    })

    it('have a history that is paged, of one model or of all', async () => {
      for (let input = 1; input <= 5; input++) await make({ model: 'paged', input })
      const page = (await gateway.api('GET', '/api/price/history?model=paged&p=2&page_size=2')).body.data
      assert.equal(page.total, 5)
      assert.deepEqual(
        page.items.map((row: { version: number }) => row.version),
        [3, 2],
      )
      const all = (await gateway.api('GET', '/api/price/history?page_size=3')).body.data
      assert.deepEqual(
        all.items.map((row: { model: string; version: number }) => `${row.model} ${row.version}`),
        ['paged 5', 'paged 4', 'paged 3'],
      )
    })

    it('that are shipped are marked as such, by name and by name with a date', async () => {
      const price = await inForce('gpt-4o')
      assert.equal(price.source, 'shipped')
      assert.equal(price.id, null)
      assert.equal(price.version, 0)
      assert.equal(price.author, null)
      assert.ok(price.input > 0 && price.output > price.input)
      assert.equal((await inForce('gpt-4o-mini-2024-07-18')).source, 'shipped')
      assert.equal((await list('model=no-such-model-anywhere')).total, 0)
    })

    it('are listed once per model over all pages, administrators’ first', async () => {
      const own = await make({ model: 'gpt-4', input: 30, output: 60 })
      const listedPrices: { model: string; source: string; id: number | null }[] = []
      for (let p = 1; ; p++) {
        const { items, total } = await list(`p=${p}&page_size=300`)
        listedPrices.push(...items)
        if (items.length < 300) {
          assert.equal(listedPrices.length, total)
          break
        }
      }
      assert.equal(new Set(listedPrices.map(row => row.model)).size, listedPrices.length)
      assert.equal(listedPrices.find(row => row.model === 'gpt-4')?.id, own.id)
      const border = listedPrices.findIndex(row => row.source === 'shipped')
      assert.ok(listedPrices.slice(0, border).every(row => row.source === 'admin'))
      assert.ok(listedPrices.slice(border).every(row => row.source === 'shipped'))
      assert.ok(listedPrices.length >= shippedModels().length)
      await gateway.api('DELETE', `/api/price/${own.id}`)
    })

    it('can be listed by their source', async () => {
      const own = await make({ model: 'gpt-4', input: 31, output: 62 })
      const shipped = await list('source=shipped&model=gpt-4')
      assert.equal(shipped.items[0].source, 'shipped')
      assert.notEqual(shipped.items[0].input, 31)
      assert.equal((await list('source=admin&model=gpt-4')).items[0].id, own.id)
      assert.equal((await list('source=admin&model=gpt-4o')).total, 0)
      assert.equal((await list('source=shipped')).total, shippedModels().length)
      assert.equal((await gateway.api('GET', '/api/price/?source=elsewhere')).status, 400)
    })

    it('are found by a part of the name in any case, and by nothing else', async () => {
      await make({ model: 'House/Own_100%', input: 1 })
      const findModels = async (keyword: string) =>
        (await list(`source=admin&keyword=${encodeURIComponent(keyword)}`)).items.map(
          (row: { model: string }) => row.model,
        )
      assert.deepEqual(await findModels('house/own'), ['House/Own_100%'])
      assert.deepEqual(await findModels('OWN_100%'), ['House/Own_100%'])
      assert.deepEqual(await findModels('own%100'), [])
      const both = await list('keyword=GPT-4O-MINI&page_size=100')
      assert.ok(both.total > 0)
      assert.ok(both.items.every((row: { model: string }) => row.model.toLowerCase().includes('gpt-4o-mini')))
    })

    it('are available to administrators only', async () => {
      const user = await gateway.createUser()
      const admin = await gateway.createUser({ role: 10 })
      const { id } = await make({ model: 'guarded', input: 1 })
      const calls = [
        ['GET', '/api/price/'],
        ['GET', '/api/price/history?model=guarded'],
        ['POST', '/api/price/'],
        ['DELETE', `/api/price/${id}`],
      ] as const
      const body = { model: 'guarded', input: 2 }
      for (const [method, path] of calls) {
        const requestBody = method === 'POST' ? body : undefined
        const refused = await gateway.api(method, path, requestBody, { token: user.accessToken })
        assert.equal(refused.status, 403, `${method} ${path}`)
        assert.equal((await gateway.api(method, path, requestBody, { token: null })).status, 401)
      }
      assert.equal((await inForce('guarded')).version, 1)
      const reply = await gateway.api('POST', '/api/price/', body, { token: admin.accessToken })
      assert.deepEqual(reply.body.data.author, { id: admin.id, username: admin.username })
    })

    it('cannot be ended if there are none', async () => {
      assert.equal((await gateway.api('DELETE', '/api/price/999999')).status, 404)
      assert.equal((await gateway.api('DELETE', '/api/price/0')).status, 400)
    })

    it('leave an audit record of who set and who ended them', async () => {
      const createdPrice = await make({ model: 'noted', input: 5 })
      await gateway.api('DELETE', `/api/price/${createdPrice.id}`)
      const { body } = await gateway.api('GET', `/api/audit/?target=price:${createdPrice.id}`)
      const [ended, created] = body.data.items
      assert.equal(created.action, 'price.create')
      assert.equal(created.before, null)
      assert.deepEqual(created.after, createdPrice)
      assert.equal(ended.action, 'price.delete')
      assert.deepEqual(ended.before, createdPrice)
      assert.equal(ended.after, null)
      assert.equal(ended.actor_name, 'root')
    })
  })
}
