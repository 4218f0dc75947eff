import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { isQuiet } from '../../src/alerts/quiet-hours.ts'
import { type AlertState, stepAlert } from '../../src/alerts/state.ts'

const OBSERVED = { subject: 'channel:1', values: { name: 'Primary' } }

/** Evaluates once a minute; `1` holds, `0` does not, `q` and `z` are the same in quiet hours. Returns the notices. */
function play(course: string, rule = { for_seconds: 0, repeat_seconds: 0 }): string {
  let state: AlertState | undefined
  return [...course]
    .map((mark, minute) => {
      const { next, notice } = stepAlert({
        state,
        observation: mark === '1' || mark === 'q' ? OBSERVED : undefined,
        rule,
        now: 1_000 + minute * 60,
        isQuiet: mark === 'q' || mark === 'z',
      })
      state = next
      return notice === undefined ? '.' : { firing: 'F', still_firing: 'S', resolved: 'R' }[notice]
    })
    .join('')
}

describe('the state of an alert', () => {
  it('fires once while the condition holds, and is resolved once', () => {
    assert.equal(play('0111000'), '.F..R..')
    assert.equal(play('10101'), 'FRFRF')
  })

  it('fires after the condition has held for for_seconds, and is resolved after it was absent for as long', () => {
    const rule = { for_seconds: 120, repeat_seconds: 0 }
    assert.equal(play('11111', rule), '..F..')
    assert.equal(play('110110', rule), '......')
    assert.equal(play('111000', rule), '..F..R')
    assert.equal(play('111011', rule), '..F...')
  })

  it('reminds after repeat_seconds', () => {
    assert.equal(play('111111', { for_seconds: 0, repeat_seconds: 120 }), 'F.S.S.')
  })

  it('does not wait for a time again after the clock was set back', () => {
    const rule = { for_seconds: 60, repeat_seconds: 120 }
    const ahead = { since: 5_000, firedTime: 5_060, notifiedTime: 5_060, clearedTime: null, values: {} }
    const step = (state: AlertState | undefined, now: number, observation: typeof OBSERVED | undefined) =>
      stepAlert({ state, observation, rule, now, isQuiet: false })
    const { next } = step(ahead, 1_000, OBSERVED)
    assert.deepEqual([next?.since, next?.notifiedTime], [1_000, 1_000])
    assert.equal(step(next, 1_120, OBSERVED).notice, 'still_firing')
    const cleared = step({ ...ahead, clearedTime: 5_100 }, 1_000, undefined)
    assert.equal(step(cleared.next, 1_060, undefined).notice, 'resolved')
  })

  it('sends nothing in quiet hours, and afterwards what is still true', () => {
    assert.equal(play('qqq11'), '...F.')
    assert.equal(play('qqzz00'), '......')
    assert.equal(play('11zz00'), 'F...R.')
    assert.equal(play('11zqq11'), 'F......')
  })
})

describe('quiet hours', () => {
  const at = (iso: string) => Date.parse(iso) / 1000
  const hours = (quiet_from: string | null, quiet_to: string | null, time_zone = 'UTC') => ({
    quiet_from,
    quiet_to,
    time_zone,
  })

  it('begin with their start and end before their end', () => {
    const rule = hours('09:00', '10:30')
    for (const [time, expected] of [
      ['08:59', false],
      ['09:00', true],
      ['10:29', true],
      ['10:30', false],
    ] as const)
      assert.equal(isQuiet(rule, at(`2026-11-16T${time}:00Z`)), expected, time)
  })

  it('may pass midnight', () => {
    const rule = hours('22:00', '07:00')
    for (const [time, expected] of [
      ['21:59', false],
      ['23:30', true],
      ['00:00', true],
      ['06:59', true],
      ['07:00', false],
    ] as const)
      assert.equal(isQuiet(rule, at(`2026-11-16T${time}:00Z`)), expected, time)
  })

  it('follow the clock of their time zone, also in summer', () => {
    const rule = hours('22:00', '07:00', 'Europe/Berlin')
    assert.equal(isQuiet(rule, at('2026-01-10T21:30:00Z')), true)
    assert.equal(isQuiet(rule, at('2026-01-10T20:30:00Z')), false)
    assert.equal(isQuiet(rule, at('2026-07-10T20:30:00Z')), true)
  })

  it('are optional', () => assert.equal(isQuiet(hours(null, null), at('2026-11-16T03:00:00Z')), false))
})
