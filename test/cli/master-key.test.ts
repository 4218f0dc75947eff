import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { createKeyring, SealError } from '../../src/identity/keyring.ts'
import { describeRotation, describeWrongSecret, NEW, OLD } from '../support/master-secret.ts'

const PLACE = { table: 'channel_keys', row: 7, field: 'key' } as const

describe('the keyring', () => {
  const keyring = createKeyring([OLD])
  const sealed = keyring.seal('a provider key', PLACE)
  const refuses = (text: string, place: Parameters<typeof keyring.open>[1] = PLACE, ring = keyring) =>
    assert.throws(() => ring.open(text, place), SealError, text)

  it('decrypts what it encrypted, for any text', () => {
    for (const text of ['', 'a provider key', '{"private_key":"…\n"}', '🔑'.repeat(1_000), '\u0000'])
      assert.equal(keyring.open(keyring.seal(text, PLACE), PLACE), text)
  })

  it('encrypts the same text differently each time, and reveals nothing of it', () => {
    const again = keyring.seal('a provider key', PLACE)
    assert.notEqual(again, sealed)
    assert.ok(![sealed, again].some(text => text.includes('provider')))
  })

  it('does not decrypt a text that was moved to another row, field or table', () => {
    refuses(sealed, { ...PLACE, row: 8 })
    refuses(sealed, { ...PLACE, row: '7 ' })
    refuses(sealed, { ...PLACE, field: 'sealed' })
    refuses(sealed, { ...PLACE, table: 'tokens' })
  })

  it('does not decrypt a text with any character changed, removed or added', () => {
    for (let at = 0; at < sealed.length; at += 1) {
      for (const other of ['A', 'B', '_', '.', '='])
        if (sealed[at] !== other) refuses(sealed.slice(0, at) + other + sealed.slice(at + 1))
      refuses(sealed.slice(0, at))
      refuses(sealed.slice(at + 1))
      refuses(`${sealed.slice(0, at)}${sealed.slice(at + 1)}`)
      refuses(`${sealed.slice(0, at)}x${sealed.slice(at)}`)
    }
    for (const more of ['.', '.x', '=', ' ', '\n', 'A']) refuses(sealed + more)
  })

  it('does not decrypt a text with a single bit flipped', () => {
    const [version, kid, nonce = '', body = ''] = sealed.split('.')
    const turned = (text: string, bit: number) => {
      const bytes = Buffer.from(text, 'base64url')
      bytes[bit >> 3] = (bytes[bit >> 3] as number) ^ (1 << (bit & 7))
      return bytes.toString('base64url')
    }
    for (let bit = 0; bit < Buffer.from(nonce, 'base64url').length * 8; bit += 1)
      refuses([version, kid, turned(nonce, bit), body].join('.'))
    for (let bit = 0; bit < Buffer.from(body, 'base64url').length * 8; bit += 1)
      refuses([version, kid, nonce, turned(body, bit)].join('.'))
  })

  it('does not decrypt a text under another secret, nor one that only claims to be encrypted under it', () => {
    const other = createKeyring([NEW])
    refuses(sealed, PLACE, other)
    const [version, , nonce, body] = sealed.split('.')
    const claimed = other.newestPrefix().split('.')[1]
    refuses([version, claimed, nonce, body].join('.'), PLACE, other)
    refuses([version, claimed, nonce, body].join('.'), PLACE, createKeyring([NEW, OLD]))
  })

  it('decrypts with every secret it has, and encrypts with the newest', () => {
    const both = createKeyring([NEW, OLD])
    assert.equal(both.open(sealed, PLACE), 'a provider key')
    const moved = both.seal('a provider key', PLACE)
    assert.ok(moved.startsWith(both.newestPrefix()))
    assert.equal(createKeyring([NEW]).open(moved, PLACE), 'a provider key')
    refuses(moved)
    both.replace([NEW])
    refuses(sealed, PLACE, both)
  })

  it('is not created without a secret', () => {
    assert.throws(() => createKeyring([]), SealError)
  })
})

describeWrongSecret('sqlite')
describeRotation({ engine: 'sqlite', isInFile: false })
