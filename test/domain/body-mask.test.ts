import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { createMask } from '../../src/domain/body-mask.ts'

const mask = createMask({ keys: true, emails: true, cards: true, fields: ['password', 'größe'] })

describe('the mask of bodies (docs/operating/bodies.md: Masks)', () => {
  it('replaces keys, also after an escape of JSON', () => {
    for (const key of [
      'sk-proj-0123456789abcdefXYZ',
      'sat-0123456789abcdef0123',
      `ghp_${'a1'.repeat(18)}`,
      `AIza${'b2'.repeat(18)}`,
      'AKIAIOSFODNN7EXAMPLE',
      'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl',
    ]) {
      assert.equal(mask(`key=${key}.`).includes(key), false, key)
      assert.equal(
        mask(JSON.stringify({ text: `first\n${key}\nlast` })),
        '{"text":"first\\n[masked]\\nlast"}',
      )
    }
    assert.equal(mask('Authorization: Bearer abcdefghijklmnop1234'), 'Authorization: Bearer [masked]')
  })

  it('leaves words that only resemble keys', () => {
    for (const text of ['a task-list-of-many-long-words', 'sk-short', 'risk-averse', 'bearer of good news'])
      assert.equal(mask(text), text)
  })

  it('replaces e-mail addresses, and keeps the JSON around them valid', () => {
    const text = JSON.stringify({ text: 'to\nada@example.com, b.c+d@mail.example.co.uk; @handle a@b' })
    assert.deepEqual(JSON.parse(mask(text)), { text: 'to\n[masked], [masked]; @handle a@b' })
  })

  it('replaces card numbers with a valid check digit, and no other numbers', () => {
    assert.equal(mask('4111 1111 1111 1111, 5105-1051-0510-5100'), '[masked]1111, [masked]5100')
    for (const text of ['4111 1111 1111 1112', '1763322228123', '1763322228123000', '0.4111111111111111'])
      assert.equal(mask(text), text)
  })

  it('replaces the texts of named fields, also in a JSON text inside a JSON text', () => {
    const latin1 = (text: string) => Buffer.from(text).toString('latin1')
    const inner = JSON.stringify({ password: 'p' })
    const text = JSON.stringify({ Password: 'a"b', größe: 'x', inner, other: 1 })
    assert.deepEqual(JSON.parse(Buffer.from(mask(latin1(text)), 'latin1').toString()), {
      Password: '[masked]',
      größe: '[masked]',
      inner: '{"password":"[masked]"}',
      other: 1,
    })
  })

  it('replaces the text of a named field that is cut off, to the end of the body', () => {
    for (const cut of ['secret', 'secret\\', 'a\\"b'])
      assert.equal(mask(`{"a":1,"password":"${cut}`), '{"a":1,"password":"[masked]"')
    assert.equal(mask('{"a":"{\\"password\\":\\"secret'), '{"a":"{\\"password\\":\\"[masked]\\"')
  })

  it('replaces nothing that is switched off', () => {
    const off = createMask({ keys: false, emails: false, cards: false, fields: [] })
    const text = 'sk-proj-0123456789abcdefXYZ ada@example.com 4111111111111111'
    assert.equal(off(text), text)
  })
})
