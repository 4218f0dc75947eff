import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { ALERT_KIND_NAMES, ALERT_KINDS } from '../../src/domain/alert.ts'
import { decideStatus } from '../../src/store/records/channel-status.ts'
import { isSigned, startReceiver } from '../support/alert-receiver.ts'
import { oneEngine, suiteGateway, suiteResource } from '../support/gateway.ts'
import { startMailServer } from '../support/mail-server.ts'
import { until } from '../support/process.ts'
import { allRows } from '../support/tables.ts'

for (const engine of oneEngine('sqlite')) {
  describe(`alerts through the API on ${engine} (docs/reference/alerts.md: Rules)`, () => {
    const gateway = suiteGateway({ engine })
    const receiver = suiteResource(startReceiver, each => each.close())
    const call = async (method: string, path: string, body?: unknown) => {
      const reply = await gateway.api(method, path, body)
      assert.equal(reply.status, 200, reply.text)
      return reply.body.data
    }
    const refused = async (method: string, path: string, body: unknown) => {
      const { status, body: answer } = await gateway.api(method, path, body)
      return [status, ...(answer.errors ?? []).map((fault: { path: string }) => fault.path)]
    }
    const everything = async () => JSON.stringify([...(await allRows(gateway.db))])

    it('have an enabled rule of every kind in a new gateway, for all targets', async () => {
      const { items } = await call('GET', '/api/alert/rule/?page_size=100')
      assert.deepEqual(
        items.map(({ kind }: { kind: string }) => kind),
        ALERT_KIND_NAMES,
      )
      for (const rule of items) {
        const kind: (typeof ALERT_KINDS)['error_rate'] = ALERT_KINDS[rule.kind as 'error_rate']
        assert.equal(rule.enabled, true)
        assert.equal(rule.target_ids, null)
        assert.equal(rule.name, kind.label.en)
        assert.equal(rule.threshold, kind.threshold?.default ?? null)
        assert.equal(rule.window_seconds, kind.window?.default ?? null)
        assert.equal(rule.min_requests, kind.minRequests?.default ?? null)
        assert.equal(rule.for_seconds, kind.forSeconds)
      }
    })

    it('have rules that can be created, changed and deleted, each with an audit record', async () => {
      const rule = await call('POST', '/api/alert/rule/', {
        name: 'Nightly errors',
        kind: 'error_rate',
        threshold: 5,
        subject_ids: [3, 3, 4],
        quiet_from: '22:00',
        quiet_to: '07:00',
        time_zone: 'Europe/Berlin',
      })
      assert.deepEqual(
        { ...rule, id: 0, created_time: 0 },
        {
          id: 0,
          name: 'Nightly errors',
          kind: 'error_rate',
          enabled: true,
          threshold: 5,
          window_seconds: 300,
          min_requests: 20,
          for_seconds: 60,
          repeat_seconds: 86_400,
          target_ids: null,
          subject_ids: [3, 4],
          quiet_from: '22:00',
          quiet_to: '07:00',
          time_zone: 'Europe/Berlin',
          created_time: 0,
        },
      )
      const changed = await call('PUT', '/api/alert/rule/', {
        id: rule.id,
        enabled: false,
        target_ids: [],
        quiet_from: null,
        quiet_to: null,
      })
      assert.deepEqual(changed, { ...rule, enabled: false, target_ids: [], quiet_from: null, quiet_to: null })
      assert.deepEqual(await call('PUT', '/api/alert/rule/', { ...changed, target_ids: null }), {
        ...changed,
        target_ids: null,
      })
      assert.deepEqual(await call('GET', `/api/alert/rule/${rule.id}`), { ...changed, target_ids: null })
      await call('DELETE', `/api/alert/rule/${rule.id}`)
      assert.equal((await gateway.api('GET', `/api/alert/rule/${rule.id}`)).status, 404)
      const audit = await call('GET', `/api/audit/?target=alert_rule:${rule.id}`)
      assert.deepEqual(
        audit.items.map(({ action }: { action: string }) => action),
        ['alert_rule.delete', 'alert_rule.update', 'alert_rule.update', 'alert_rule.create'],
      )
    })

    it('refuse a rule that its kind does not allow, and name the field', async () => {
      const rule = { name: 'wrong', kind: 'error_rate' }
      for (const [fields, ...paths] of [
        [{ threshold: 101 }, 'threshold'],
        [{ threshold: 'x' }, 'threshold'],
        [{ window_seconds: 59 }, 'window_seconds'],
        [{ window_seconds: 60.5 }, 'window_seconds'],
        [{ min_requests: 0 }, 'min_requests'],
        [{ kind: 'channel_disabled', threshold: 1 }, 'threshold'],
        [{ kind: 'suspense_open', subject_ids: [1] }, 'subject_ids'],
        [{ kind: 'nonsense' }, 'kind'],
        [{ for_seconds: -1 }, 'for_seconds'],
        [{ repeat_seconds: 1e9 }, 'repeat_seconds'],
        [{ quiet_from: '25:00', quiet_to: '07:00' }, 'quiet_from'],
        [{ quiet_from: '22:00' }, 'quiet_to'],
        [{ quiet_from: '22:00', quiet_to: '22:00' }, 'quiet_to'],
        [{ time_zone: 'Mars/Base' }, 'time_zone'],
        [{ name: '' }, 'name'],
      ] as [object, ...string[]][])
        assert.deepEqual(
          await refused('POST', '/api/alert/rule/', { ...rule, ...fields }),
          [400, ...paths],
          JSON.stringify(fields),
        )
      const { status } = await gateway.api('POST', '/api/alert/rule/', { ...rule, name: 'Error rate' })
      assert.equal(status, 409)
    })

    it('keep the secrets of a target encrypted, and show them masked', async () => {
      const url = `${receiver.url}/services/T0/path-of-the-hook?key=key-of-the-hook`
      const target = await call('POST', '/api/alert/target/', { name: 'Ops', type: 'webhook', url })
      assert.match(target.secret, /^whsec_[\w-]{32}$/)
      assert.equal(target.url, `${receiver.url}/…`)
      const maskedTarget = await call('GET', `/api/alert/target/${target.id}`)
      assert.match(maskedTarget.secret, /^whsec.*…/)
      assert.ok(maskedTarget.secret.length < 20)
      const stored = await everything()
      for (const secret of [target.secret, 'path-of-the-hook', 'key-of-the-hook'])
        assert.equal(stored.includes(secret), false, secret)

      receiver.received.length = 0
      const tested = await call('POST', `/api/alert/target/${target.id}/test`)
      assert.deepEqual([tested.ok, tested.status, tested.error], [true, 200, ''])
      const [message] = receiver.received
      assert.equal(message?.path, '/services/T0/path-of-the-hook?key=key-of-the-hook')
      assert.ok(message && isSigned(message, target.secret))
      assert.equal(message.body.test, true)

      // A client sends the object back as it received it: the secrets stay.
      await call('PUT', '/api/alert/target/', { ...maskedTarget, group_seconds: 5 })
      await gateway.operations.rotateSecret()
      await call('POST', `/api/alert/target/${target.id}/test`)
      assert.ok(receiver.received[1] && isSigned(receiver.received[1], target.secret))

      receiver.answer(403, 'no access for path-of-the-hook with key-of-the-hook')
      const failed = await call('POST', `/api/alert/target/${target.id}/test`)
      assert.deepEqual([failed.ok, failed.status], [false, 403])
      assert.equal(failed.error, 'status 403: no access for [redacted] with [redacted]')
      receiver.answer(200)
      await call('DELETE', `/api/alert/target/${target.id}`)
    })

    it('are sent in the form of each service', async () => {
      const url = `${receiver.url}/hook`
      for (const [type, fields, path, member] of [
        ['slack', { url }, '/hook', 'text'],
        ['discord', { url }, '/hook', 'content'],
        [
          'telegram',
          { url: receiver.url, bot_token: '1:ABCDEFGH', chat_id: '42' },
          '/bot1:ABCDEFGH/sendMessage',
          'text',
        ],
        ['feishu', { url, secret: 'of-feishu' }, '/hook', 'content'],
        ['dingtalk', { url, secret: 'of-dingtalk' }, '/hook', 'text'],
        ['wecom', { url }, '/hook', 'text'],
      ] as const) {
        receiver.answer(200, '{"ok":true,"code":0,"errcode":0}')
        receiver.received.length = 0
        const target = await call('POST', '/api/alert/target/', { name: type, type, ...fields })
        const tested = await call('POST', `/api/alert/target/${target.id}/test`)
        assert.deepEqual([tested.ok, tested.error], [true, ''], type)
        const [message] = receiver.received
        assert.equal(message?.path.split('?')[0], path)
        assert.match(JSON.stringify(message?.body[member]), /Test message/)
        await call('DELETE', `/api/alert/target/${target.id}`)
      }
    })

    it('refuse a target that cannot work, and name the field', async () => {
      const url = 'https://example.com/hook'
      for (const [body, ...paths] of [
        [{ type: 'webhook' }, 'url'],
        [{ type: 'webhook', url: 'ftp://example.com' }, 'url'],
        [{ type: 'webhook', url: 'http://169.254.169.254/latest' }, 'url'],
        [{ type: 'webhook', url: 'https://user:secret@example.com/' }, 'url'],
        [{ type: 'webhook', url, to: ['a@example.com'] }, 'to'],
        [{ type: 'slack', url, secret: 'x' }, 'secret'],
        [{ type: 'telegram', bot_token: 'a b' }, 'chat_id', 'bot_token'],
        [{ type: 'email' }, 'to'],
        [{ type: 'email', to: ['nobody'] }, 'to.0'],
        [{ type: 'email', to: ['a@example.com', 'b@example.com\r\nBcc: c@example.com'] }, 'to.1', 'to.1'],
        [{ type: 'pager', url }, 'type'],
        [{ type: 'webhook', url, group_seconds: 3_601 }, 'group_seconds'],
        [{ type: 'webhook', url, language: 'fr' }, 'language'],
      ] as [object, ...string[]][])
        assert.deepEqual(
          await refused('POST', '/api/alert/target/', { name: 'wrong', ...body }),
          [400, ...paths],
          JSON.stringify(body),
        )
    })

    it('send a stored bot token only to the server that it was entered for', async () => {
      const target = await call('POST', '/api/alert/target/', {
        name: 'Bot',
        type: 'telegram',
        bot_token: '123456:ABCDEF',
        chat_id: '1',
      })
      const move = { id: target.id, url: receiver.url }
      assert.deepEqual(await refused('PUT', '/api/alert/target/', move), [400, 'bot_token'])
      await call('PUT', '/api/alert/target/', { ...move, bot_token: '123456:GHIJKL' })
      await call('DELETE', `/api/alert/target/${target.id}`)
    })

    it('are sent by e-mail through the server of the settings, whose password is never shown', async () => {
      const mail = await startMailServer('p@ss word:1')
      const target = await call('POST', '/api/alert/target/', {
        name: 'Mail',
        type: 'email',
        to: ['ops@example.com', 'root@example.com'],
      })
      const test = () => call('POST', `/api/alert/target/${target.id}/test`)
      assert.match((await test()).error, /smtp_url is empty/)
      const setting = async (key: string) =>
        (await call('GET', '/api/setting/')).find((each: { key: string }) => each.key === key).value
      for (const wrong of [
        'http://mail',
        'smtp://',
        'smtp://host/path',
        'smtp://host?x=1',
        'mail.example.com',
      ])
        assert.deepEqual(await refused('PUT', '/api/setting/', { smtp_url: wrong }), [400, 'smtp_url'], wrong)
      assert.deepEqual(await refused('PUT', '/api/setting/', { smtp_from: 'nobody' }), [400, 'smtp_from'])
      await call('PUT', '/api/setting/', {
        smtp_url: `smtp://alerts:p%40ss%20word%3A1@127.0.0.1:${mail.port}`,
        smtp_from: 'Sluice <alerts@example.com>',
      })
      const maskedUrl = `smtp://alerts:…@127.0.0.1:${mail.port}`
      assert.equal(await setting('smtp_url'), maskedUrl)
      await gateway.operations.rotateSecret()
      assert.deepEqual((await test()).error, '')
      const [received] = mail.received
      assert.equal(received?.from, 'alerts@example.com')
      assert.deepEqual(received?.to, ['ops@example.com', 'root@example.com'])
      assert.equal(received?.user, 'alerts')
      assert.match(received?.text ?? '', /From: Sluice <alerts@example.com>/)
      assert.match(received?.text ?? '', /Subject: \[Sluice .*Test message/)
      // The masked value, sent back, keeps the password.
      await call('PUT', '/api/setting/', { smtp_url: maskedUrl, attempts: 4 })
      assert.equal((await test()).ok, true)
      await call('PUT', '/api/setting/', { smtp_url: `smtp://alerts:wrong-password@127.0.0.1:${mail.port}` })
      const failed = await test()
      assert.equal(failed.ok, false)
      assert.match(failed.error, /Invalid credentials: \[redacted\]/)
      const stored = await everything()
      for (const secret of ['p@ss word:1', 'p%40ss', 'wrong-password'])
        assert.equal(stored.includes(secret), false, secret)
      assert.equal((await gateway.operations.verify({})).ok, true)
      await call('PUT', '/api/setting/', { smtp_url: null, smtp_from: null, attempts: null })
      assert.equal(await setting('smtp_url'), '')
      assert.match((await test()).error, /smtp_url is empty/)
      await call('DELETE', `/api/alert/target/${target.id}`)
      await mail.close()
    })

    it('are sent by a running gateway, and dead messages can be retried', async () => {
      const channel = await call('POST', '/api/channel/', {
        mode: 'single',
        channel: {
          name: 'Primary',
          type: 1,
          key: 'sk-provider',
          base_url: receiver.url,
          models: ['gpt-4o'],
        },
      })
      receiver.received.length = 0
      const target = await call('POST', '/api/alert/target/', {
        name: 'Live',
        type: 'webhook',
        url: `${receiver.url}/live`,
        group_seconds: 0,
      })
      const decision = { channelId: channel.id, time: 1, reason: 'The provider returned status 401.' }
      await decideStatus(gateway.db, { ...decision, status: 3 })
      const alertOf = (state: string) =>
        until(`the message that is ${state}`, () =>
          receiver.received
            .filter(message => isSigned(message, target.secret))
            .flatMap(({ body }) => body.alerts)
            .find(alert => alert.subject === `channel:${channel.id}` && alert.state === state),
        )
      assert.equal((await alertOf('firing')).title, 'Channel "Primary" was auto-disabled')
      const firing = await call('GET', '/api/alert/firing')
      const subjects = firing.map(({ subject }: { subject: string }) => subject)
      assert.ok(subjects.includes(`channel:${channel.id}`))
      await decideStatus(gateway.db, { ...decision, status: 1, reason: '' })
      await alertOf('resolved')

      // The receiver has the message a moment before the gateway has noted it.
      const items = await until('both deliveries to be noted', async () => {
        const page = await call('GET', `/api/alert/delivery/?status=sent&target_id=${target.id}`)
        return page.items.length >= 2 ? page.items : undefined
      })
      assert.equal(items[0].target, 'Live')
      const { id } = items[0]
      assert.equal((await gateway.api('POST', `/api/alert/delivery/${id}/retry`)).status, 409)
      await gateway.db.updateTable('alert_deliveries').set({ status: 'dead' }).where('id', '=', id).execute()
      const dead = await call('GET', '/api/alert/delivery/?status=dead')
      assert.deepEqual(
        dead.items.map((each: { id: number }) => each.id),
        [id],
      )
      receiver.received.length = 0
      assert.equal((await call('POST', `/api/alert/delivery/${id}/retry`)).status, 'pending')
      await until('the retried message', () => receiver.received[0])
      assert.equal(receiver.received[0]?.headers['x-sluice-delivery'], String(id))
      await call('DELETE', `/api/alert/target/${target.id}`)
      assert.deepEqual((await call('GET', `/api/alert/delivery/?target_id=${target.id}`)).items, [])
    })
  })
}
