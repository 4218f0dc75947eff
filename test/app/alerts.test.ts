import assert from 'node:assert/strict'
import { beforeEach, describe, it } from 'node:test'
import { readConfig } from '../../src/app/config.ts'
import { operationsOf } from '../../src/app/operations.ts'
import { transact } from '../../src/store/engine/store.ts'
import { reviveDelivery } from '../../src/store/records/alert-deliveries.ts'
import { writeSecretSetting, writeSetting } from '../../src/store/records/settings.ts'
import { insertLog, LOG_TYPE } from '../../src/store/usage/logs.ts'
import { isSigned, startReceiver } from '../support/alert-receiver.ts'
import { openAlertWorld } from '../support/alert-world.ts'
import { oneEngine, suiteResource } from '../support/gateway.ts'
import { startMailServer } from '../support/mail-server.ts'

const SECRET = 'whsec_of_the_test'

for (const engine of oneEngine('postgres')) {
  describe(`alerts on ${engine}`, () => {
    const world = suiteResource(
      () => openAlertWorld(engine),
      each => each.close(),
    )
    const receiver = suiteResource(startReceiver, each => each.close())

    beforeEach(async () => {
      await world.clear()
      receiver.received.length = 0
      receiver.answer(200)
      await world.db.deleteFrom('channels').execute()
      world.facts.freeDiskBytes = 1e12
      world.facts.lagS = 0
      world.facts.exits = []
    })

    const hook = (fields = {}) =>
      world.addTarget('webhook', { url: `${receiver.url}/hook`, secret: SECRET }, fields)
    const evaluate = async (alerts: ReturnType<typeof world.createMachine>, afterS = 0) => {
      world.clock.now += afterS
      await alerts.evaluate()
      await alerts.deliver()
    }
    /** The state and subject of every alert in the messages since the last call. */
    const takeAlerts = () =>
      receiver.received
        .splice(0)
        .map(({ body }) =>
          body.alerts.map((alert: { state: string; subject: string }) => `${alert.state} ${alert.subject}`),
        )
    const deliveries = () => world.db.selectFrom('alert_deliveries').selectAll().orderBy('id').execute()

    async function addChannel(status: 1 | 3 = 3, name = 'Primary'): Promise<number> {
      const { id } = await world.db
        .insertInto('channels')
        .values({
          name,
          type: 1,
          base_url: 'http://127.0.0.1:9',
          models: '[]',
          model_mapping: '{}',
          priority: 0,
          weight: 0,
          status,
          status_reason: 'The provider returned status 401.',
          channel_group: 'default',
          search: '',
          created_time: 1,
          test_time: 0,
          response_time: 0,
          used: 0,
          auto_ban: 1,
          test_model: '',
          param_override: '{}',
          header_override: '{}',
          status_code_mapping: '{}',
          setting: '{}',
          openai_organization: '',
          other: '',
          remark: '',
          limits: '{}',
          is_multi: 0,
        })
        .returning('id')
        .executeTakeFirstOrThrow()
      return id
    }
    const setChannel = (id: number, status: 1 | 3) =>
      world.db.updateTable('channels').set({ status }).where('id', '=', id).execute()

    it('are sent as a signed webhook when a channel is disabled, and again when it is back', async () => {
      const alerts = world.createMachine()
      await world.addRule('channel_disabled')
      await hook()
      const id = await addChannel()
      await evaluate(alerts)
      const [first] = receiver.received
      assert.ok(first && isSigned(first, SECRET))
      assert.equal(first.headers['content-type'], 'application/json')
      assert.equal(first.body.alerts[0].title, 'Channel "Primary" was auto-disabled')
      assert.equal(first.body.alerts[0].detail, 'The provider returned status 401.')
      assert.deepEqual(takeAlerts(), [[`firing channel:${id}`]])
      await evaluate(alerts, 15)
      assert.deepEqual(takeAlerts(), [])
      await setChannel(id, 1)
      await evaluate(alerts, 15)
      assert.deepEqual(takeAlerts(), [[`resolved channel:${id}`]])
      await evaluate(alerts, 15)
      assert.deepEqual(takeAlerts(), [])
      assert.deepEqual(
        (await deliveries()).map(({ status, attempts }) => [status, attempts]),
        [
          ['sent', 1],
          ['sent', 1],
        ],
      )
    })

    it('are neither repeated nor lost by a restart', async () => {
      await world.addRule('channel_disabled', { repeat_seconds: 3_600 })
      await hook()
      const id = await addChannel()
      await evaluate(world.createMachine())
      assert.deepEqual(takeAlerts(), [[`firing channel:${id}`]])
      await evaluate(world.createMachine(), 15)
      assert.deepEqual(takeAlerts(), [])
      await evaluate(world.createMachine(), 3_600)
      assert.deepEqual(takeAlerts(), [[`still_firing channel:${id}`]])
      await setChannel(id, 1)
      // Evaluated by a process that ends before it sends anything.
      world.clock.now += 15
      await world.createMachine().evaluate()
      await world.createMachine().deliver()
      assert.deepEqual(takeAlerts(), [[`resolved channel:${id}`]])
    })

    it('are sent once if several machines evaluate and deliver at the same time', async () => {
      await world.addRule('channel_disabled')
      await hook()
      const machines = ['host-1', 'host-2', 'host-3'].map(world.createMachine)
      const ids = [await addChannel(3, 'one'), await addChannel(3, 'two')]
      await Promise.all(machines.map(machine => machine.evaluate()))
      await Promise.all(machines.map(machine => machine.deliver()))
      assert.deepEqual(takeAlerts(), [ids.map(id => `firing channel:${id}`)])
      for (const id of ids) await setChannel(id, 1)
      // Also when the machine with the lease has ended.
      world.clock.now += 61
      await Promise.all(machines.map(machine => machine.evaluate()))
      await Promise.all(machines.map(machine => machine.deliver()))
      assert.deepEqual(
        takeAlerts().map(alerts => alerts.sort()),
        [ids.map(id => `resolved channel:${id}`)],
      )
    })

    it('wait for further alerts for group_seconds and are sent in one message', async () => {
      const alerts = world.createMachine()
      await world.addRule('channel_disabled')
      await hook({ group_seconds: 60 })
      const first = await addChannel(3, 'one')
      await evaluate(alerts)
      const second = await addChannel(3, 'two')
      await evaluate(alerts, 30)
      assert.deepEqual(takeAlerts(), [])
      await evaluate(alerts, 30)
      assert.deepEqual(takeAlerts(), [[`firing channel:${first}`, `firing channel:${second}`]])
      assert.equal((await deliveries()).length, 1)
    })

    it('count the alerts beyond 100 in a message', async () => {
      const alerts = world.createMachine()
      await world.addRule('channel_disabled')
      await hook()
      for (let number = 0; number < 105; number++) await addChannel(3, `channel ${number}`)
      await evaluate(alerts)
      assert.equal(receiver.received[0]?.body.alerts.length, 100)
      assert.equal(receiver.received[0]?.body.omitted, 5)
    })

    it('do not end because there are more than a rule lists', async () => {
      const alerts = world.createMachine()
      await world.addRule('channel_disabled')
      await hook()
      const first = await addChannel(1, 'first')
      for (let number = 0; number < 200; number++) await addChannel(3, `channel ${number}`)
      await evaluate(alerts)
      takeAlerts()
      await setChannel(first, 3)
      await evaluate(alerts, 15)
      assert.deepEqual(takeAlerts(), [[`firing channel:${first}`]])
    })

    it('are not sent in quiet hours', async () => {
      const alerts = world.createMachine()
      const minute = (offsetS: number) =>
        new Date((world.clock.now + offsetS) * 1000).toISOString().slice(11, 16)
      await world.addRule('channel_disabled', {
        quiet_from: minute(-120),
        quiet_to: minute(600),
        time_zone: 'UTC',
      })
      await hook()
      const [short, long] = [await addChannel(3, 'short'), await addChannel(3, 'long')]
      await evaluate(alerts)
      await setChannel(short, 1)
      await evaluate(alerts, 60)
      assert.deepEqual(takeAlerts(), [])
      await evaluate(alerts, 660)
      assert.deepEqual(takeAlerts(), [[`firing channel:${long}`]])
    })

    it('go to the targets of their rule, or to every enabled target', async () => {
      const alerts = world.createMachine()
      const one = await world.addTarget('webhook', { url: `${receiver.url}/one`, secret: SECRET })
      await world.addTarget('webhook', { url: `${receiver.url}/two`, secret: SECRET })
      const off = await world.addTarget('webhook', { url: `${receiver.url}/off`, secret: SECRET })
      await world.db.updateTable('alert_targets').set({ enabled: 0 }).where('id', '=', off).execute()
      await world.addRule('channel_disabled', { target_ids: [one, off] })
      await world.addRule('disk_low')
      await world.addRule('journal_lag', { target_ids: [] })
      await addChannel()
      world.facts.freeDiskBytes = 1
      world.facts.lagS = 100
      await evaluate(alerts)
      const kindsByPath = receiver.received
        .map(
          ({ path, body }) => `${path} ${body.alerts.map((alert: { kind: string }) => alert.kind).join(' ')}`,
        )
        .sort()
      assert.deepEqual(kindsByPath, ['/one channel_disabled disk_low', '/two disk_low'])
    })

    it('are not evaluated without a target, and end silently with their rule', async () => {
      const alerts = world.createMachine()
      const ruleId = await world.addRule('channel_disabled')
      await addChannel()
      await evaluate(alerts)
      assert.deepEqual(await world.db.selectFrom('alert_states').selectAll().execute(), [])
      await hook()
      await evaluate(alerts, 15)
      assert.equal(takeAlerts().length, 1)
      await world.db.updateTable('alert_rules').set({ enabled: 0 }).where('id', '=', ruleId).execute()
      await evaluate(alerts, 15)
      assert.deepEqual(takeAlerts(), [])
      assert.deepEqual(await world.db.selectFrom('alert_states').selectAll().execute(), [])
    })

    it('are retried with growing pauses, are dead after 10 attempts, and can be retried by hand', async () => {
      const alerts = world.createMachine()
      await world.addRule('channel_disabled')
      await hook()
      receiver.answer(500, `broken, and your secret is ${SECRET}`)
      const id = await addChannel()
      await alerts.evaluate()
      const pauses: number[] = []
      for (let attempt = 1; attempt < 10; attempt++) {
        await alerts.deliver()
        const [row] = await deliveries()
        assert.ok(row)
        assert.deepEqual([row.status, row.attempts], ['pending', attempt])
        pauses.push(row.next_time - world.clock.now)
        world.clock.now = row.next_time - 1
        await alerts.deliver()
        assert.equal(receiver.received.length, attempt, 'it is not sent before its time')
        world.clock.now = row.next_time
      }
      await alerts.deliver()
      assert.deepEqual(pauses, [15, 30, 60, 120, 240, 480, 960, 1920, 3600])
      const [dead] = await deliveries()
      assert.equal(dead?.status, 'dead')
      assert.equal(dead?.last_error, 'status 500: broken, and your secret is [redacted]')
      assert.equal(new Set(receiver.received.map(({ headers }) => headers['x-sluice-delivery'])).size, 1)
      world.clock.now += 100_000
      await alerts.deliver()
      assert.equal(receiver.received.length, 10)
      receiver.answer(200)
      receiver.received.length = 0
      await transact(world.db, trx => reviveDelivery(trx, dead?.id ?? 0, world.clock.now))
      await alerts.deliver()
      assert.deepEqual(takeAlerts(), [[`firing channel:${id}`]])
      assert.equal((await deliveries())[0]?.status, 'sent')
    })

    it('wait as long as a receiver asks for, and follow no redirect', async () => {
      const alerts = world.createMachine()
      await world.addRule('channel_disabled')
      await hook()
      receiver.answer(429, 'slow down', { 'retry-after': '700' })
      await addChannel()
      await evaluate(alerts)
      const [row] = await deliveries()
      assert.equal((row?.next_time ?? 0) - world.clock.now, 700)
      receiver.answer(302, '', { location: `${receiver.url}/elsewhere` })
      world.clock.now += 700
      await alerts.deliver()
      assert.deepEqual(
        receiver.received.map(({ path }) => path),
        ['/hook', '/hook'],
      )
      assert.match((await deliveries())[0]?.last_error ?? '', /^status 302/)
    })

    it('are sent by another process if the first one dies while it sends', async () => {
      const alerts = world.createMachine()
      await world.addRule('channel_disabled')
      await hook()
      await addChannel()
      await alerts.evaluate()
      await world.db
        .updateTable('alert_deliveries')
        .set({ claimed_until: world.clock.now + 120 })
        .execute()
      await alerts.deliver()
      assert.deepEqual(takeAlerts(), [])
      world.clock.now += 120
      await alerts.deliver()
      assert.equal(takeAlerts().length, 1)
    })

    it('are sent by e-mail, with all alerts in one mail', async () => {
      const mail = await startMailServer()
      const url = `smtp://127.0.0.1:${mail.port}`
      const place = { table: 'setting_secrets', row: 'smtp_url', field: 'value' }
      await transact(world.db, async trx => {
        await writeSecretSetting(trx, 'smtp_url', world.keyring.seal(url, place))
        const value = JSON.stringify('Sluice <alerts@example.com>')
        await writeSetting(trx, { key: 'smtp_from', value, time: 1, authorId: 1 })
      })
      const alerts = world.createMachine('host-1')
      await world.addRule('channel_disabled')
      await world.addTarget('email', {}, { to: ['ops@example.com'] })
      await addChannel(3, 'one')
      await addChannel(3, 'two')
      await evaluate(alerts)
      assert.equal(mail.received.length, 1)
      const text = mail.received[0]?.text ?? ''
      assert.match(text, /^Subject: \[Sluice host-1\] 2 firing\r$/m)
      assert.match(text, /^Firing: Channel "one" was auto-disabled\r$/m)
      assert.match(text, /^Firing: Channel "two" was auto-disabled\r$/m)
      await mail.close()
      await world.db.updateTable('channels').set({ status: 1 }).execute()
      await evaluate(alerts, 15)
      const [last] = (await deliveries()).toReversed()
      assert.deepEqual([last?.status, last?.attempts], ['pending', 1])
      assert.match(last?.last_error ?? '', /ECONNREFUSED/)
      for (const table of ['settings', 'setting_secrets'] as const) await world.db.deleteFrom(table).execute()
    })

    it('beyond 100 waiting messages are added to the last one', async () => {
      const alerts = world.createMachine()
      await world.addRule('channel_disabled')
      await hook()
      receiver.answer(500)
      for (let number = 0; number < 103; number++) {
        await addChannel(3, `channel ${number}`)
        await evaluate(alerts)
      }
      const rows = await deliveries()
      assert.equal(rows.length, 100)
      assert.equal(JSON.parse(rows.at(-1)?.notices ?? '[]').length, 4)
    })

    it('about the journal are also sent while the store is unavailable', async () => {
      const alerts = world.createMachine('host-1')
      await world.addRule('journal_lag', { threshold: 30 })
      await hook()
      await evaluate(alerts)
      world.facts.isStoreDown = true
      world.clock.now += 15
      await assert.rejects(alerts.evaluate())
      assert.deepEqual(takeAlerts(), [])
      world.facts.lagS = 31
      receiver.answer(500)
      await assert.rejects(alerts.evaluate())
      receiver.answer(200)
      receiver.received.length = 0
      await assert.rejects(alerts.evaluate())
      await assert.rejects(alerts.evaluate())
      assert.ok(receiver.received[0] && isSigned(receiver.received[0], SECRET))
      assert.deepEqual(takeAlerts(), [['firing machine:host-1']])
      // The store is back, and the journal is not yet written.
      world.facts.isStoreDown = false
      await evaluate(alerts, 15)
      assert.deepEqual(takeAlerts(), [])
      world.facts.lagS = 0
      await evaluate(alerts, 15)
      assert.deepEqual(takeAlerts(), [['resolved machine:host-1']])
      await evaluate(alerts, 15)
      assert.deepEqual(takeAlerts(), [])
    })

    it('about the journal are neither repeated nor resolved twice if they fired before the store was unavailable', async () => {
      const alerts = world.createMachine('host-1')
      await world.addRule('journal_lag', { threshold: 30 })
      await hook()
      world.facts.lagS = 31
      await evaluate(alerts)
      assert.deepEqual(takeAlerts(), [['firing machine:host-1']])
      world.facts.isStoreDown = true
      for (let i = 0; i < 3; i++) {
        world.clock.now += 15
        await assert.rejects(alerts.evaluate())
      }
      assert.deepEqual(takeAlerts(), [])
      // The lag ends with the outage, and once more before the machine notices that the store is back.
      world.facts.lagS = 0
      await assert.rejects(alerts.evaluate())
      assert.deepEqual(takeAlerts(), [['resolved machine:host-1']])
      world.facts.isStoreDown = false
      await evaluate(alerts, 15)
      await evaluate(alerts, 15)
      assert.deepEqual(takeAlerts(), [])
    })

    it('that could not be sent while the store was unavailable are queued when it is back', async () => {
      const alerts = world.createMachine('host-1')
      await world.addRule('journal_lag', { threshold: 30 })
      const [keptTargetId, deleted] = [await hook(), await hook()]
      await evaluate(alerts)
      world.facts.isStoreDown = true
      world.facts.lagS = 31
      receiver.answer(500)
      await assert.rejects(alerts.evaluate())
      receiver.answer(200)
      receiver.received.length = 0
      world.facts.isStoreDown = false
      await world.db.deleteFrom('alert_targets').where('id', '=', deleted).execute()
      await evaluate(alerts, 15)
      assert.deepEqual(takeAlerts(), [['firing machine:host-1']])
      assert.deepEqual(
        (await deliveries()).map(({ target_id, status }) => [target_id, status]),
        [[keptTargetId, 'sent']],
      )
      await evaluate(alerts, 15)
      assert.deepEqual(takeAlerts(), [])
    })

    it('are sent and resolved although the clock was set back', async () => {
      const alerts = world.createMachine('host-1')
      await world.addRule('channel_disabled', { for_seconds: 60 })
      await hook()
      const id = await addChannel()
      await evaluate(alerts)
      world.clock.now -= 10 * 3_600
      await evaluate(alerts)
      await evaluate(alerts, 60)
      assert.deepEqual(takeAlerts(), [[`firing channel:${id}`]])
      await world.db.updateTable('channels').set({ status: 1 }).where('id', '=', id).execute()
      await evaluate(alerts, 15)
      // A message that was queued and claimed before the clock was set back.
      await world.db
        .updateTable('alert_states')
        .set({ cleared_time: world.clock.now + 7_200 })
        .execute()
      await evaluate(alerts, 15)
      await world.db
        .updateTable('alert_deliveries')
        .set({ next_time: world.clock.now + 36_000, claimed_until: world.clock.now + 36_000 })
        .where('status', '=', 'pending')
        .execute()
      await evaluate(alerts, 60)
      assert.deepEqual(takeAlerts(), [[`resolved channel:${id}`]])
    })

    describe('conditions', () => {
      const TEST_USER = 4_711
      const logRow = (type: number, channelId: number, requests = 1) =>
        insertLog(world.db, {
          created_time: world.clock.now,
          type,
          user_id: TEST_USER,
          channel_id: channelId,
          requests,
        })
      /** Evaluates a rule of this kind, and returns the subjects that fire. */
      async function firing(alerts = world.createMachine()) {
        await alerts.evaluate()
        const rows = await world.db
          .selectFrom('alert_states')
          .selectAll()
          .where('fired_time', 'is not', null)
          .where('cleared_time', 'is', null)
          .execute()
        return rows.map(({ subject }) => subject).sort()
      }
      const values = async () =>
        JSON.parse(
          (await world.db.selectFrom('alert_states').select('observed').executeTakeFirstOrThrow()).observed,
        )

      beforeEach(async () => {
        await hook()
        world.clock.now += 100_000
        await world.db.deleteFrom('logs').execute()
      })

      it('include keys of enabled channels', async () => {
        await world.addRule('key_disabled')
        const channelId = await addChannel(1)
        const { id } = await world.db
          .insertInto('channel_keys')
          .values({
            channel_id: channelId,
            position: 2,
            digest: `digest ${channelId}`,
            sealed: 'v1.x.y.z',
            hint: 'sk-…',
            status: 3,
            reason: 'The provider returned status 401.',
            disabled_time: 1,
          })
          .returning('id')
          .executeTakeFirstOrThrow()
        assert.deepEqual(await firing(), [`channel_key:${id}`])
        await world.db.deleteFrom('channel_keys').where('id', '=', id).execute()
        assert.deepEqual(await firing(), [])
      })

      it('include the error rate, of all requests or of a channel, and only with enough requests', async () => {
        await world.addRule('error_rate', { threshold: 25, min_requests: 4, window_seconds: 300 })
        await world.addRule('error_rate', { threshold: 25, min_requests: 4, subject_ids: [81, 82] })
        await logRow(LOG_TYPE.error, 81)
        await logRow(LOG_TYPE.consume, 81)
        await logRow(LOG_TYPE.consume, 82)
        assert.deepEqual(await firing(), [])
        await logRow(LOG_TYPE.error, 81)
        await logRow(LOG_TYPE.consume, 81)
        // Rejected requests are no errors of a provider.
        await logRow(LOG_TYPE.error, 0, 1_000)
        assert.deepEqual(await firing(), ['channel:81', 'gateway'])
        world.clock.now += 301
        assert.deepEqual(await firing(), [])
      })

      it('include the rejection rate', async () => {
        await world.addRule('rejection_rate', { threshold: 50, min_requests: 10 })
        await logRow(LOG_TYPE.consume, 81, 6)
        await logRow(LOG_TYPE.error, 0, 5)
        // Callers without a known token do not count.
        await logRow(LOG_TYPE.system, 0, 1_000)
        assert.deepEqual(await firing(), [])
        await logRow(LOG_TYPE.error, 0, 1)
        assert.deepEqual(await firing(), ['gateway'])
        assert.deepEqual(await values(), {
          name: 'gateway',
          rate: '50',
          count: '6',
          total: '12',
          window: '300',
        })
      })

      it('include low balances and those that end soon', async () => {
        const user = async (username: string, credited: number, unlimited = 0) => {
          const { id } = await world.db
            .insertInto('users')
            .values({
              username,
              username_key: username,
              display_name: '',
              email: '',
              search: '',
              password_hash: '',
              role: 1,
              status: 1,
              user_group: 'default',
              limits: '{}',
              created_time: 1,
              last_login_time: 0,
            })
            .returning('id')
            .executeTakeFirstOrThrow()
          const account = { unlimited, credited, posted: 0, held: 0, request_count: 0 }
          await world.db
            .insertInto('accounts')
            .values({ kind: 'user', owner_id: id, ...account })
            .execute()
          return id
        }
        const USD = 1e9
        const poor = await user('poor', 0.5 * USD)
        const rich = await user('rich', 500 * USD)
        await user('without credit', 0)
        await user('unlimited', 1, 1)
        const rule = await world.addRule('balance_low', { threshold: 1 })
        assert.deepEqual(await firing(), [`user:${poor}`])
        assert.equal((await values()).left, '0.5')
        await world.db.updateTable('alert_rules').set({ enabled: 0 }).where('id', '=', rule).execute()
        const bucket = world.clock.now - (world.clock.now % 900)
        const spend = (user_id: number, cost: number) =>
          world.db
            .insertInto('rollups')
            .values({
              bucket,
              user_id,
              token_id: 0,
              channel_id: 1,
              model: 'm',
              requests: 1,
              failures: 0,
              prompt_tokens: 0,
              completion_tokens: 0,
              cost,
            })
            .execute()
        await spend(rich, 600 * USD)
        await spend(poor, 0.1 * USD)
        await world.addRule('balance_runway', { threshold: 24, window_seconds: 86_400 })
        assert.deepEqual(await firing(), [`user:${rich}`])
        assert.match((await values()).hours, /^20(\.\d)?$/)
        for (const id of [poor, rich])
          await world.db.updateTable('users').set({ status: 2 }).where('id', '=', id).execute()
        assert.deepEqual(await firing(), [])
      })

      it('include unresolved charges from a threshold', async () => {
        const add = (amount: number) =>
          world.db
            .insertInto('suspense')
            .values({
              time: 1,
              request_id: 'r',
              user_id: 1,
              token_id: 0,
              channel_id: 1,
              amount,
              reason: 'cut',
            })
            .execute()
        await world.addRule('suspense_open', { threshold: 2 })
        await add(1.5e9)
        assert.deepEqual(await firing(), [])
        await add(0.5e9)
        assert.deepEqual(await firing(), ['ledger:suspense'])
        assert.deepEqual(await values(), { count: '2', amount: '2' })
        await world.db.updateTable('suspense').set({ closed_time: 2 }).execute()
        assert.deepEqual(await firing(), [])
      })

      it('include a failed verification, until one succeeds', async () => {
        const config = readConfig({ SLUICE_DATA: world.dataDir })
        // Rows that the tests before this one wrote without audit records.
        await world.db.deleteFrom('accounts').where('owner_id', '<>', 1).execute()
        await world.db.deleteFrom('users').where('id', '<>', 1).execute()
        const { verify } = operationsOf(config, world.storeAndKeys)
        await world.addRule('verify_failed')
        const rows = await world.db
          .selectFrom('users')
          .select(['id', 'role'])
          .where('role', '=', 100)
          .execute()
        const [root] = rows
        const setRole = (role: number) =>
          world.db
            .updateTable('users')
            .set({ role })
            .where('id', '=', root?.id ?? 0)
            .execute()
        await setRole(10)
        assert.equal((await verify({})).ok, false)
        assert.deepEqual(await firing(), ['ledger:verify'])
        assert.match((await values()).fault, /user/)
        await verify({ auditOnly: true })
        assert.deepEqual(await firing(), ['ledger:verify'])
        await setRole(100)
        assert.equal((await verify({})).ok, true)
        assert.deepEqual(await firing(), [])
      })

      it('include models without a price', async () => {
        await world.addRule('price_missing')
        const channelId = await addChannel(1)
        for (const model of ['gpt-4o', 'our-own-model'])
          await world.db.insertInto('channel_models').values({ channel_id: channelId, model }).execute()
        assert.deepEqual(await firing(), ['model:our-own-model'])
      })

      it('include tokens that expire soon', async () => {
        const root = await world.db
          .selectFrom('users')
          .select('id')
          .where('role', '=', 100)
          .executeTakeFirstOrThrow()
        const add = async (name: string, expired_time: number) => {
          const { id } = await world.db
            .insertInto('access_tokens')
            .values({
              user_id: root.id,
              name,
              digest: name,
              hint: '',
              created_time: 1,
              expired_time,
              last_used_time: 0,
            })
            .returning('id')
            .executeTakeFirstOrThrow()
          return id
        }
        await world.addRule('key_expiring', { threshold: 24 })
        const soon = await add('soon', world.clock.now + 3_600)
        await add('later', world.clock.now + 100_000)
        await add('never', -1)
        assert.deepEqual(await firing(), [`access_token:${soon}`])
        await world.db.deleteFrom('access_tokens').where('user_id', '=', root.id).execute()
        assert.deepEqual(await firing(), [])
      })

      it('include the disk, the journal and the workers of each machine', async () => {
        await world.addRule('disk_low', { threshold: 100 })
        await world.addRule('journal_lag', { threshold: 30 })
        await world.addRule('worker_restarted', { threshold: 2, window_seconds: 600 })
        const alerts = world.createMachine('host-9')
        assert.deepEqual(await firing(alerts), [])
        world.facts.freeDiskBytes = 50 * 1_048_576
        world.facts.lagS = 31
        world.facts.exits = [{ slot: 0, how: 'SIGKILL', time: world.clock.now - 10 }]
        assert.deepEqual(await firing(alerts), ['machine:host-9', 'machine:host-9'])
        world.facts.exits = [...world.facts.exits, { slot: 1, how: 'exit 1', time: world.clock.now }]
        assert.deepEqual(await firing(alerts), ['machine:host-9', 'machine:host-9', 'machine:host-9'])
        world.clock.now += 600
        world.facts.freeDiskBytes = 1e12
        world.facts.lagS = 0
        assert.deepEqual(await firing(alerts), [])
      })

      it('of a machine that is gone end after 10 minutes', async () => {
        await world.addRule('disk_low', { threshold: 100 })
        world.facts.freeDiskBytes = 1
        assert.deepEqual(await firing(world.createMachine('host-1')), ['machine:host-1'])
        world.facts.freeDiskBytes = 1e12
        const other = world.createMachine('host-2')
        world.clock.now += 300
        assert.deepEqual(await firing(other), ['machine:host-1'])
        world.clock.now += 400
        assert.deepEqual(await firing(other), [])
      })
    })
  })
}
