import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { inOneNetwork, suiteFlood } from '../../../support/sign-in-flood.ts'

describe('a flood of sign-ins', () => {
  const { gateway, alice, login, whileFlooded } = suiteFlood()

  it('from one IPv6 network does not prevent sign-ins from other addresses', async () => {
    const reply = await whileFlooded(inOneNetwork, () => login('198.51.100.7', 'alice', alice.password))
    assert.equal(reply.status, 200, reply.text)
  })

  it('from many addresses does not prevent a signed-in user from setting a password', async () => {
    const many = (index: number) => `203.${index & 127}.${128 + (index >> 7)}.2`
    const reply = await whileFlooded(many, () =>
      gateway.api('POST', '/api/user/', { username: 'made-in-a-flood', password: 'a good password' }),
    )
    assert.equal(reply.status, 200, reply.text)
  })
})
