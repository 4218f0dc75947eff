import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { createThrottle } from '../../../src/identity/throttle.ts'
import { inOneNetwork, suiteFlood } from '../../support/sign-in-flood.ts'

describe('guessing passwords', () => {
  const guess = (addressAt: (index: number) => string, tries: number) => {
    const throttle = createThrottle(() => 1_000_000)
    const waits = Array.from({ length: tries }, (_, index) =>
      throttle.attempt(`name-${index}`, addressAt(index)),
    )
    return waits.filter(wait => wait === 0).length
  }

  it('from one IPv6 network is counted as from one IPv4 address', () => {
    assert.equal(
      guess(() => '203.0.113.9', 80),
      50,
    )
    assert.equal(guess(inOneNetwork, 80), 50)
  })

  it('of one account from one IPv6 network is throttled after the fifth', () => {
    const throttle = createThrottle(() => 1_000_000)
    const waits = Array.from({ length: 8 }, (_, index) => throttle.attempt('root', inOneNetwork(index)))
    assert.equal(waits.filter(wait => wait === 0).length, 5)
  })

  it('from many networks of one site is limited as well', () => {
    assert.equal(
      guess(index => `2001:db8:7:${index.toString(16)}::1`, 600),
      500,
    )
  })

  it('by one client does not throttle neighbouring networks', () => {
    const throttle = createThrottle(() => 1_000_000)
    for (let index = 0; index < 80; index++) throttle.attempt(`name-${index}`, inOneNetwork(index))
    assert.equal(throttle.attempt('alice', '2001:db8:7:2::1'), 0)
    assert.equal(throttle.attempt('alice', '2001:db9::1'), 0)
  })

  it('counts IPv4 clients behind NAT64 individually', () => {
    const throttle = createThrottle(() => 1_000_000)
    for (let index = 0; index < 80; index++) throttle.attempt(`name-${index}`, '64:ff9b::cb00:7109')
    assert.ok(throttle.attempt('alice', '64:ff9b::cb00:7109') > 0)
    assert.equal(throttle.attempt('alice', '64:ff9b::cb00:710a'), 0)
  })

  it('is still counted if the same client tries many more names', () => {
    assert.equal(
      guess(() => '203.0.113.9', 60_000),
      50,
    )
  })
})

// Other floods are system tests: each takes seconds of CPU time.
describe('a flood of sign-ins', () => {
  const { alice, login, whileFlooded } = suiteFlood()

  it('from many addresses does not lock out a user who has signed in from there before', async () => {
    assert.equal((await login('198.51.100.7', 'alice', alice.password)).status, 200)
    const many = (index: number) => `203.${index & 127}.${index >> 7}.1`
    const reply = await whileFlooded(many, () => login('198.51.100.7', 'alice', alice.password))
    assert.equal(reply.status, 200, reply.text)
  })
})
