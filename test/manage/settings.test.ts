import assert from 'node:assert/strict'
import { beforeEach, describe, it } from 'node:test'
import { SETTINGS } from '../../src/domain/setting.ts'
import { oneEngine, suiteGateway } from '../support/gateway.ts'

const DEFAULTS = Object.fromEntries(Object.entries(SETTINGS).map(([key, setting]) => [key, setting.default]))

for (const engine of oneEngine('postgres')) {
  describe(`settings on ${engine} (docs/reference/management-api.md: Runtime settings)`, () => {
    const gateway = suiteGateway({ engine })
    beforeEach(async () => {
      await put(Object.fromEntries(Object.keys(DEFAULTS).map(key => [key, null])))
    })

    const put = (body: unknown) => gateway.api('PUT', '/api/setting/', body)
    const option = (body: unknown) => gateway.api('PUT', '/api/option/', body)
    type Listed = {
      key: string
      value: unknown
      default: unknown
      source: string
      unit: string
      help: string
    }
    const list = async (): Promise<Listed[]> => (await gateway.api('GET', '/api/setting/')).body.data
    const values = async () => Object.fromEntries((await list()).map(({ key, value }) => [key, value]))

    it('are listed with value, default, source, unit and a sentence of help', async () => {
      const settings = await list()
      assert.deepEqual(Object.fromEntries(settings.map(setting => [setting.key, setting.default])), DEFAULTS)
      for (const setting of settings) {
        assert.deepEqual(Object.keys(setting).sort(), ['default', 'help', 'key', 'source', 'unit', 'value'])
        assert.equal(setting.value, setting.default)
        assert.equal(setting.source, 'default')
        assert.ok(setting.help.length > 20)
      }
      assert.equal(settings.find(({ key }) => key === 'early_headers_ms')?.unit, 'ms')
    })

    it('can be changed several at a time, and the response lists the new values', async () => {
      const { status, body } = await put({ attempts: 3, default_video_model: ' sora-2 ', registration: true })
      assert.equal(status, 200)
      assert.deepEqual(body.data, await list())
      assert.deepEqual(await values(), {
        ...DEFAULTS,
        attempts: 3,
        default_video_model: 'sora-2',
        registration: true,
      })
      const sources = Object.fromEntries((await list()).map(({ key, source }) => [key, source]))
      assert.deepEqual([sources.attempts, sources.early_headers_ms], ['set', 'default'])
    })

    it('take effect before the response is sent', async () => {
      await put({ registration: true })
      assert.equal((await gateway.api('GET', '/api/status')).body.data.register_enabled, true)
      await put({ registration: false })
      assert.equal((await gateway.api('GET', '/api/status')).body.data.register_enabled, false)
    })

    it('return to the default with null or an empty string', async () => {
      for (const nothing of [null, '', '  ']) {
        await put({ attempts: 3, registration: true, default_video_model: 'sora-2' })
        await put({ attempts: nothing, registration: nothing, default_video_model: nothing })
        assert.deepEqual(await values(), DEFAULTS)
        assert.ok((await list()).every(({ source }) => source === 'default'))
      }
    })

    it('are changed all or none: with one invalid value or unknown key nothing is written', async () => {
      for (const [wrong, ...paths] of [
        [{ attempts: 0 }, 'attempts'],
        [{ attempts: 51 }, 'attempts'],
        [{ attempts: 2.5 }, 'attempts'],
        [{ attempts: 'many' }, 'attempts'],
        [{ early_headers_ms: -1 }, 'early_headers_ms'],
        [{ usage_retention_days: true }, 'usage_retention_days'],
        [{ registration: 'yes' }, 'registration'],
        [{ registration: 1 }, 'registration'],
        [{ default_video_model: 5 }, 'default_video_model'],
        [{ default_video_model: 'x'.repeat(256) }, 'default_video_model'],
        [{ default_video_model: 'a\nb' }, 'default_video_model'],
        [{ default_video_model: ['sora-2'] }, 'default_video_model'],
        [{ no_such_key: 1 }, 'no_such_key'],
        [{ no_such_key: null, attempts: 'x' }, 'no_such_key', 'attempts'],
        [{ toString: 1 }, 'toString'],
      ] as [object, ...string[]][]) {
        const { status, body } = await put({ early_headers_ms: 1_000, ...wrong })
        assert.deepEqual([status, body.code], [400, 'invalid_request'], JSON.stringify(wrong))
        const faultPaths = body.errors.map((error: { path: string }) => error.path)
        assert.deepEqual(faultPaths, paths)
        assert.deepEqual(await values(), DEFAULTS)
      }
    })

    it('need a body with at least one setting', async () => {
      for (const body of [{}, [], 'attempts', null]) assert.equal((await put(body)).status, 400)
    })

    it('count the characters of a text in code points', async () => {
      assert.equal((await put({ default_video_model: '🎬'.repeat(255) })).status, 200)
      assert.equal((await put({ default_video_model: '🎬'.repeat(256) })).status, 400)
    })

    it('store zero and false as values, not as absence', async () => {
      await put({ early_headers_ms: 0, usage_retention_days: 0, registration: false })
      const byKey = Object.fromEntries((await list()).map(setting => [setting.key, setting]))
      assert.deepEqual([byKey.early_headers_ms?.value, byKey.early_headers_ms?.source], [0, 'set'])
      assert.deepEqual([byKey.usage_retention_days?.value, byKey.registration?.source], [0, 'set'])
    })

    it('can also be read and set in the form of existing clients, where values are strings', async () => {
      await option({ key: 'attempts', value: '7' })
      await option({ key: 'registration', value: 'true' })
      await option({ key: 'default_moderation_model', value: 'omni-moderation-latest' })
      assert.deepEqual(await values(), {
        ...DEFAULTS,
        attempts: 7,
        registration: true,
        default_moderation_model: 'omni-moderation-latest',
      })
      const options = (await gateway.api('GET', '/api/option/')).body.data
      assert.deepEqual(
        Object.fromEntries(options.map(({ key, value }: { key: string; value: string }) => [key, value])),
        Object.fromEntries(Object.entries(await values()).map(([key, value]) => [key, String(value)])),
      )
      await option({ key: 'attempts', value: 8 })
      assert.equal((await values()).attempts, 8)
      await option({ key: 'attempts', value: '' })
      assert.equal((await values()).attempts, 5)
      for (const wrong of [
        { key: 'ModelRatio', value: '{}' },
        { key: 'attempts', value: '0' },
        { value: '1' },
      ])
        assert.equal((await option(wrong)).status, 400)
    })

    it('are for Root only', async () => {
      const admin = await gateway.createUser({ role: 10 })
      const user = await gateway.createUser()
      for (const { accessToken: token } of [admin, user])
        for (const [method, path, body] of [
          ['GET', '/api/setting/', undefined],
          ['PUT', '/api/setting/', { attempts: 1 }],
          ['GET', '/api/option/', undefined],
          ['PUT', '/api/option/', { key: 'attempts', value: '1' }],
        ] as const) {
          const reply = await gateway.api(method, path, body, { token })
          assert.deepEqual([reply.status, reply.body.code], [403, 'forbidden'])
        }
      assert.equal((await values()).attempts, 5)
    })

    it('are audited when they change: only the changed ones, before and after', async () => {
      await put({ attempts: 9, registration: true })
      const { items } = (await gateway.api('GET', '/api/audit/?action=setting.update&page_size=1')).body.data
      assert.deepEqual(items[0].before, { attempts: 5, registration: false })
      assert.deepEqual(items[0].after, { attempts: 9, registration: true })
    })

    it('have one group, `default`, with ratio 1', async () => {
      const groups = { default: { ratio: 1, desc: 'All users' } }
      assert.deepEqual((await gateway.api('GET', '/api/user/self/groups')).body.data, groups)
      assert.deepEqual((await gateway.api('GET', '/api/group/')).body.data, ['default'])
    })
  })
}
