import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { describe, it } from 'node:test'
import { type AlertMessage, textOf } from '../../src/alerts/message.ts'
import { refusalOf, requestOf } from '../../src/alerts/templates.ts'
import {
  ALERT_KIND_NAMES,
  alertKind,
  describeAlert,
  type Notice,
  type TargetType,
} from '../../src/domain/alert.ts'

const NOW_MS = 1_800_000_000_123
const notice = (fields: Partial<Notice> = {}): Notice => ({
  state: 'firing',
  kind: 'channel_disabled',
  rule_id: 1,
  rule: 'Channels',
  subject: 'channel:7',
  since: 1_799_999_000,
  time: 1_800_000_000,
  values: { name: 'Primary', reason: 'The provider returned status 401.' },
  ...fields,
})
const message = (notices: readonly Notice[], omitted = 0): AlertMessage => ({
  id: 5,
  time: 1_800_000_000,
  machine: 'host-1',
  notices,
  omitted,
})
const target = (type: TargetType, secrets: object = {}, options: object = {}) => ({
  type,
  options: { language: 'en' as const, group_seconds: 0, to: [], chat_id: '', ...options },
  secrets: { url: 'https://example.com/hook?key=abc', secret: '', bot_token: '', ...secrets },
})
const bodyOf = (type: TargetType, alertMessage: AlertMessage, secrets: object = {}, options: object = {}) => {
  const request = requestOf(target(type, secrets, options), alertMessage, NOW_MS)
  return { ...request, json: JSON.parse(request.body) }
}

describe('the text of an alert', () => {
  it('has the state, the title, the detail, the start and the rule', () => {
    assert.equal(
      textOf(message([notice()]), 'en'),
      [
        '[Sluice host-1] Firing: Channel "Primary" was auto-disabled',
        'The provider returned status 401.',
        'Since 2027-01-15 07:43 UTC · Rule: Channels',
      ].join('\n'),
    )
  })

  it('counts several alerts in its first line and lists at most 20 of them', () => {
    const notices = Array.from({ length: 25 }, (_each, index) =>
      notice({ subject: `channel:${index}`, state: index === 0 ? 'resolved' : 'firing' }),
    )
    const text = textOf(message(notices, 3), 'en')
    assert.match(text, /^\[Sluice host-1\] 24 firing, 1 resolved \(and 3 more\)\n/)
    assert.equal(text.match(/Since/g)?.length, 20)
    assert.ok(text.endsWith('and 8 more'))
  })

  it('exists in Chinese', () => {
    assert.match(
      textOf(message([notice({ state: 'resolved' })]), 'zh-CN'),
      /已恢复: 渠道“Primary”已被自动禁用/,
    )
    assert.match(textOf(message([]), 'zh-CN'), /测试消息/)
  })

  it('names the same values in both languages, for every kind', () => {
    const namesIn = (text: string) => [...text.matchAll(/\{(\w+)\}/g)].map(([, name]) => name).sort()
    for (const kind of ALERT_KIND_NAMES) {
      const { title, detail } = alertKind(kind)
      assert.deepEqual(namesIn(title.en), namesIn(title['zh-CN']), kind)
      assert.deepEqual(namesIn(detail.en), namesIn(detail['zh-CN']), kind)
      assert.doesNotMatch(describeAlert({ kind, values: {} }, 'en').title, /[{}]/)
    }
  })
})

describe('the message to', () => {
  it('a webhook is signed and has every alert', () => {
    const { json, headers, body, url } = bodyOf('webhook', message([notice()]), { secret: 'whsec_1' })
    assert.equal(url, 'https://example.com/hook?key=abc')
    assert.equal(headers['x-sluice-delivery'], '5')
    const signature = createHmac('sha256', 'whsec_1').update(`1800000000.${body}`).digest('hex')
    assert.equal(headers['x-sluice-signature'], `t=1800000000,v1=${signature}`)
    assert.deepEqual(json, {
      id: 5,
      time: 1_800_000_000,
      machine: 'host-1',
      test: false,
      title: '[Sluice host-1] Firing: Channel "Primary" was auto-disabled',
      alerts: [
        {
          state: 'firing',
          kind: 'channel_disabled',
          level: 'error',
          rule_id: 1,
          rule: 'Channels',
          subject: 'channel:7',
          title: 'Channel "Primary" was auto-disabled',
          detail: 'The provider returned status 401.',
          since: 1_799_999_000,
          time: 1_800_000_000,
          values: { name: 'Primary', reason: 'The provider returned status 401.' },
        },
      ],
      omitted: 0,
    })
  })

  it('Slack escapes its control characters', () => {
    const { json } = bodyOf('slack', message([notice({ values: { name: '<!channel> & co', reason: '' } })]))
    assert.match(json.text, /&lt;!channel&gt; &amp; co/)
  })

  it('Discord mentions nobody and has at most 2,000 characters', () => {
    const long = Array.from({ length: 20 }, () => notice({ values: { name: 'é'.repeat(200), reason: '' } }))
    const { json } = bodyOf('discord', message(long))
    assert.deepEqual(json.allowed_mentions, { parse: [] })
    assert.equal(json.content.length, 2_000)
    assert.ok(json.content.endsWith('…'))
  })

  it('Telegram goes to the bot’s address with the chat', () => {
    const secrets = { url: '', bot_token: '123:ABC' }
    const { url, json } = bodyOf('telegram', message([notice()]), secrets, { chat_id: '-100' })
    assert.equal(url, 'https://api.telegram.org/bot123:ABC/sendMessage')
    assert.equal(json.chat_id, '-100')
    assert.match(json.text, /Primary/)
    assert.equal(
      bodyOf('telegram', message([]), { ...secrets, url: 'http://bots.local/' }).url,
      'http://bots.local/bot123:ABC/sendMessage',
    )
  })

  it('Feishu is signed if it has a secret, and contains no tag', () => {
    const tagged = message([notice({ values: { name: '<at user_id="all">', reason: '' } })])
    const { json } = bodyOf('feishu', tagged, { secret: 'sign' })
    assert.equal(json.msg_type, 'text')
    assert.doesNotMatch(json.content.text, /</)
    assert.equal(json.timestamp, '1800000000')
    assert.equal(json.sign, createHmac('sha256', '1800000000\nsign').update('').digest('base64'))
    assert.equal('sign' in bodyOf('feishu', tagged).json, false)
  })

  it('DingTalk is signed in the address if it has a secret', () => {
    const { url, json } = bodyOf('dingtalk', message([notice()]), { secret: 'SEC1' })
    const { searchParams } = new URL(url)
    assert.equal(searchParams.get('key'), 'abc')
    assert.equal(searchParams.get('timestamp'), String(NOW_MS))
    assert.equal(
      searchParams.get('sign'),
      createHmac('sha256', 'SEC1').update(`${NOW_MS}\nSEC1`).digest('base64'),
    )
    assert.match(json.text.content, /^\[Sluice/)
    assert.equal(bodyOf('dingtalk', message([])).url, 'https://example.com/hook?key=abc')
  })

  it('WeCom has at most 2,048 bytes, without half characters', () => {
    const long = Array.from({ length: 20 }, () => notice({ values: { name: '渠'.repeat(200), reason: '' } }))
    const { json } = bodyOf('wecom', message(long))
    assert.ok(Buffer.byteLength(json.text.content) <= 2_048)
    assert.doesNotMatch(json.text.content, /\ufffd/)
  })
})

describe('the answer of a service', () => {
  it('is a refusal above status 299, and if a 200 has an error code', () => {
    const answers: [TargetType, number, string, boolean][] = [
      ['webhook', 204, '', true],
      ['webhook', 302, '', false],
      ['webhook', 500, 'broken', false],
      ['slack', 200, 'ok', true],
      ['slack', 404, 'no_service', false],
      ['feishu', 200, '{"code":0}', true],
      ['feishu', 200, '{"StatusCode":0,"StatusMessage":"success"}', true],
      ['feishu', 200, '{"code":19021,"msg":"sign match fail"}', false],
      ['dingtalk', 200, '{"errcode":0,"errmsg":"ok"}', true],
      ['dingtalk', 200, '{"errcode":310000,"errmsg":"keywords not in content"}', false],
      ['wecom', 200, '{"errcode":93000,"errmsg":"invalid webhook url"}', false],
      ['wecom', 200, '<html>', false],
    ]
    for (const [type, status, text, isAccepted] of answers)
      assert.equal(refusalOf(type, { status, text }) === undefined, isAccepted, `${type} ${status} ${text}`)
  })
})
