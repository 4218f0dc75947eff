import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { createShortageLog } from '../../src/app/shortage-log.ts'
import { shortageOf } from '../../src/domain/shortage.ts'
import { overloaded } from '../../src/http/budget.ts'

describe('a resource shortage of the machine', () => {
  const failing = (code: string, more = {}) => Object.assign(new Error(code), { code, ...more })

  it('is 503 overloaded for the client, with advice for the operator in the log', () => {
    for (const code of ['EMFILE', 'ENFILE', 'ENOSPC', 'EDQUOT', 'ENOMEM', 'ENOBUFS', 'EADDRNOTAVAIL']) {
      const shortage = shortageOf(failing(code))
      assert.equal(shortage?.code, code)
      assert.match(shortage?.advice ?? '', /SLUICE_|ulimit|fs\.file-max|net\.ipv4/)
      const refusal = overloaded(shortage ?? { resource: '' })
      assert.equal(refusal.code, 'overloaded')
      assert.equal(refusal.retryAfterS, 1)
    }
  })

  it('is detected behind every address of a name, and not for a machine without IPv6', () => {
    const several = new AggregateError([failing('ECONNREFUSED'), failing('EMFILE')])
    assert.equal(shortageOf(several)?.code, 'EMFILE')
    assert.equal(shortageOf(failing('EADDRNOTAVAIL', { address: '2001:db8::1' })), undefined)
    assert.equal(shortageOf(failing('ECONNREFUSED')), undefined)
    assert.equal(shortageOf(undefined), undefined)
  })

  it('is logged once a minute, with the number of occurrences since', () => {
    const lines: unknown[] = []
    let nowMs = 0
    const log = createShortageLog({ error: (...line: unknown[]) => lines.push(line) } as never, () => nowMs)
    const shortage = shortageOf(failing('EMFILE'))
    assert.ok(shortage)
    for (nowMs = 0; nowMs < 60_000; nowMs += 10_000) log(shortage)
    assert.equal(lines.length, 1)
    nowMs = 60_000
    log(shortage)
    assert.deepEqual(lines.at(-1), [
      { code: 'EMFILE', since_last: 5 },
      'The gateway is out of file descriptors of this process. Requests are refused with 503. Raise the limit of open files (ulimit -n, LimitNOFILE) or lower SLUICE_MAX_CONNECTIONS.',
    ])
  })
})
