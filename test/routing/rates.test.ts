import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { createRates, type Subject, type Ticket } from '../../src/routing/rates.ts'
import { createRateServer, createSharedRates } from '../../src/routing/shared-rates.ts'
import { fc } from '../support/properties.ts'

const subject = (limits: Partial<Subject['limits']>, id = 1, kind: Subject['kind'] = 'token'): Subject => ({
  kind,
  id,
  limits: { rpm: null, tpm: null, concurrency: null, ...limits },
})

/** Half a second past a whole one, so that seconds and milliseconds cannot be mixed up. */
const START_MS = 1_000_500

function world(options: { maxSubjects?: number } = {}) {
  let atMs = START_MS
  const rates = createRates({ nowMs: () => atMs, ...options })
  const admit = (subjects: readonly Subject[], input = 0) => rates.admit(subjects, input)
  return {
    rates,
    admit,
    pass: (ms: number) => {
      atMs += ms
    },
    take: (subjects: readonly Subject[], input = 0): Ticket => {
      const admission = admit(subjects, input)
      assert.ok(admission.ok, 'not admitted')
      return admission.ticket
    },
    refused: (subjects: readonly Subject[], input = 0) => {
      const admission = admit(subjects, input)
      assert.ok(!admission.ok, 'admitted')
      return { id: admission.subject.id, limit: admission.limit, retryAfterS: admission.retryAfterS }
    },
  }
}

describe('requests per minute', () => {
  const five = subject({ rpm: 5 })

  it('are admitted up to the limit, and refused beyond it', () => {
    const w = world()
    for (let times = 0; times < 5; times += 1) w.take([five]).end(0)
    assert.deepEqual(w.refused([five]), { id: 1, limit: 'rpm', retryAfterS: 60 })
  })

  it('count for 60 s in steps of 1 s', () => {
    const w = world()
    for (let times = 0; times < 5; times += 1) w.take([five])
    // The second started half a second ago, so it ends that much earlier.
    w.pass(59_499)
    assert.equal(w.refused([five]).retryAfterS, 1)
    w.pass(1)
    w.take([five])
  })

  it('do not count when refused', () => {
    const w = world()
    for (let times = 0; times < 5; times += 1) w.take([five])
    for (let times = 0; times < 100; times += 1) w.refused([five])
    w.pass(60_000)
    for (let times = 0; times < 5; times += 1) w.take([five])
  })

  it('report when the next request will be admitted', () => {
    const w = world()
    w.take([five])
    w.pass(10_000)
    for (let times = 0; times < 4; times += 1) w.take([five])
    w.pass(20_000)
    const { retryAfterS } = w.refused([five])
    assert.equal(retryAfterS, 30)
    w.pass((retryAfterS - 1) * 1_000)
    w.refused([five])
    w.pass(1_000)
    w.take([five])
    assert.equal(w.refused([five]).retryAfterS, 10)
  })

  it('follow a limit that is changed meanwhile', () => {
    const w = world()
    w.take([five])
    w.take([five])
    assert.equal(w.refused([subject({ rpm: 2 })]).limit, 'rpm')
    w.take([subject({ rpm: 3 })])
  })
})

describe('tokens per minute', () => {
  const hundred = subject({ tpm: 100 })

  it('admit while the tokens of the last minute are below the limit, whatever the next request adds', () => {
    const w = world()
    w.take([hundred]).end(99)
    w.take([hundred], 5_000).end(1)
    assert.deepEqual(w.refused([hundred]), { id: 1, limit: 'tpm', retryAfterS: 60 })
  })

  it('are the counted input while a request runs, and the reported ones when it has ended', () => {
    const w = world()
    const running = w.take([hundred], 100)
    assert.equal(w.refused([hundred]).limit, 'tpm')
    running.end(40)
    w.take([hundred], 59)
    w.take([hundred], 1)
    assert.equal(w.refused([hundred]).limit, 'tpm')
  })

  it('of a running request count for as long as it runs, those of an ended one for a minute after', () => {
    const w = world()
    const running = w.take([hundred], 100)
    w.pass(600_000)
    assert.equal(w.refused([hundred]).retryAfterS, 60)
    running.end(100)
    w.pass(59_000)
    assert.equal(w.refused([hundred]).retryAfterS, 1)
    w.pass(500)
    w.take([hundred])
  })

  it('report when enough tokens have left the window', () => {
    const w = world()
    w.take([hundred]).end(30)
    w.pass(5_000)
    w.take([hundred]).end(60)
    w.pass(5_000)
    w.take([hundred]).end(20)
    // The 30 expire first and leave 80, which is below 100 but not below 80.
    assert.equal(w.refused([subject({ tpm: 80 })]).retryAfterS, 55)
    assert.equal(w.refused([hundred]).retryAfterS, 50)
    w.take([subject({ tpm: 111 })], 25)
    // With 25 running, the 60 must expire too.
    assert.equal(w.refused([hundred]).retryAfterS, 55)
  })

  it('of a request that failed are none', () => {
    const w = world()
    w.take([hundred], 100).end(0)
    w.take([hundred])
  })
})

describe('concurrent requests', () => {
  const two = subject({ concurrency: 2 })

  it('release their slot when they end, and update their tokens when those are known', () => {
    const w = world()
    const limited = subject({ concurrency: 1, tpm: 100 })
    const firstTicket = w.take([limited], 60)
    firstTicket.leave()
    firstTicket.leave()
    const next = w.take([limited], 60)
    assert.equal(w.refused([limited]).limit, 'tpm')
    firstTicket.end(0)
    assert.equal(w.refused([limited]).limit, 'concurrency')
    next.end(0)
    w.take([limited])
  })

  it('hold their slot from admission to the end', () => {
    const w = world()
    const first = w.take([two])
    w.take([two])
    w.pass(3_600_000)
    assert.deepEqual(w.refused([two]), { id: 1, limit: 'concurrency', retryAfterS: 1 })
    first.end(0)
    w.take([two])
    w.refused([two])
  })

  it('end once, even if end is called several times', () => {
    const w = world()
    const first = w.take([two], 7)
    w.take([two])
    first.end(5)
    first.end(5)
    first.end(5)
    w.take([two])
    w.refused([two])
    assert.equal(w.rates.remaining([subject({ tpm: 100 })]).tokens?.remaining, 95)
  })
})

describe('several subjects', () => {
  const token = subject({ rpm: 10, concurrency: 10 }, 1, 'token')
  const user = subject({ rpm: 2 }, 1, 'user')

  it('are admitted together or not at all', () => {
    const w = world()
    w.take([token, user])
    w.take([token, user])
    assert.deepEqual(w.refused([token, user]), { id: 1, limit: 'rpm', retryAfterS: 60 })
    const { requests } = w.rates.remaining([token])
    assert.equal(requests?.remaining, 8)
    for (let times = 0; times < 8; times += 1) w.take([token])
    assert.equal(w.refused([token]).limit, 'rpm')
  })

  it('of the same id but another kind are different', () => {
    const w = world()
    for (const kind of ['token', 'user', 'channel'] as const) w.take([subject({ rpm: 1 }, 1, kind)])
    for (const kind of ['token', 'user', 'channel'] as const) w.refused([subject({ rpm: 1 }, 1, kind)])
  })

  it('report the longest wait of all exceeded limits', () => {
    const w = world()
    const slow = subject({ rpm: 1, concurrency: 1 }, 2, 'user')
    const fast = subject({ concurrency: 1 }, 3)
    w.take([fast, slow])
    assert.deepEqual(w.refused([fast, slow]), { id: 2, limit: 'rpm', retryAfterS: 60 })
  })

  it('without limits cost nothing and are not stored', () => {
    const w = world()
    for (let id = 0; id < 100; id += 1) w.take([subject({}, id)], 10).end(10)
    assert.equal(w.rates.size(), 0)
    assert.deepEqual(w.rates.remaining([subject({})]), {})
  })
})

describe('a channel', () => {
  it('is full for as long as its limits would refuse, and the check itself does not count', () => {
    const w = world()
    const limited = subject({ rpm: 2 }, 4, 'channel')
    assert.equal(w.rates.fullForS(limited), 0)
    w.take([limited])
    for (let times = 0; times < 9; times += 1) assert.equal(w.rates.fullForS(limited), 0)
    w.take([limited])
    assert.equal(w.rates.fullForS(limited), 60)
    w.pass(30_000)
    assert.equal(w.rates.fullForS(limited), 30)
    w.pass(30_000)
    assert.equal(w.rates.fullForS(limited), 0)
    assert.equal(w.rates.fullForS(subject({}, 4, 'channel')), 0)
  })
})

describe('the remainder', () => {
  it('is reported with the time until the whole limit is available', () => {
    const w = world()
    const limited = subject({ rpm: 10, tpm: 1_000 })
    assert.deepEqual(w.rates.remaining([limited]), {
      requests: { limit: 10, remaining: 10, resetS: 0 },
      tokens: { limit: 1_000, remaining: 1_000, resetS: 0 },
    })
    const running = w.take([limited], 300)
    w.pass(20_000)
    assert.deepEqual(w.rates.remaining([limited]), {
      requests: { limit: 10, remaining: 9, resetS: 40 },
      tokens: { limit: 1_000, remaining: 700, resetS: 60 },
    })
    running.end(1_200)
    w.pass(5_000)
    assert.deepEqual(w.rates.remaining([limited]), {
      requests: { limit: 10, remaining: 9, resetS: 35 },
      tokens: { limit: 1_000, remaining: 0, resetS: 55 },
    })
  })

  it('is that of the tightest subject, for requests and tokens separately', () => {
    const w = world()
    const token = subject({ rpm: 5, tpm: 900 }, 1, 'token')
    const user = subject({ rpm: 8, tpm: 100 }, 1, 'user')
    const { requests, tokens } = w.rates.remaining([token, user])
    assert.deepEqual([requests?.limit, tokens?.limit], [5, 100])
    assert.deepEqual(Object.keys(w.rates.remaining([subject({ rpm: 1 })])), ['requests'])
  })
})

describe('the meters in memory', () => {
  it('are dropped a minute after the last request, but never while one runs', () => {
    const w = world()
    const limits = { rpm: 5, concurrency: 1 }
    for (let id = 0; id < 100; id += 1) w.take([subject(limits, id)]).end(0)
    w.take([subject(limits, 500)])
    w.pass(61_000)
    w.take([subject(limits, 501)]).end(0)
    assert.equal(w.rates.size(), 2)
    w.pass(600_000)
    w.take([subject(limits, 502)])
    assert.equal(w.refused([subject(limits, 500)]).limit, 'concurrency')
  })

  it('stay within their limit, and idle ones are dropped first', () => {
    const w = world({ maxSubjects: 20 })
    const limits = { rpm: 2 }
    const use = (id: number, kind?: Subject['kind']) => w.take([subject(limits, id, kind)]).end(0)
    for (let id = 0; id < 20; id += 1) use(id)
    w.pass(40_000)
    use(0)
    use(1)
    use(100, 'channel')
    // A tenth of them was dropped, so that the next ones have room.
    assert.equal(w.rates.size(), 19)
    const remainingRequestsOf = (id: number) => w.rates.remaining([subject(limits, id)]).requests?.remaining
    assert.deepEqual([0, 1, 2, 3, 4, 19].map(remainingRequestsOf), [0, 0, 2, 2, 1, 1])
  })

  it('have room immediately after requests have ended, so that no subject loses its window', () => {
    const w = world({ maxSubjects: 3 })
    const limits = { rpm: 1 }
    const long = [w.take([subject(limits, 1)]), w.take([subject(limits, 2)])]
    w.pass(70_000)
    w.take([subject(limits, 3)])
    for (const ticket of long) ticket.end(0)
    w.take([subject(limits, 4)]).end(0)
    w.take([subject(limits, 5)]).end(0)
    for (const id of [3, 4, 5]) w.refused([subject(limits, id)])
  })

  it('keep every running request even above the limit', () => {
    const w = world({ maxSubjects: 10 })
    const limits = { concurrency: 1 }
    for (let id = 0; id < 50; id += 1) w.take([subject(limits, id)])
    for (let id = 0; id < 50; id += 1) w.refused([subject(limits, id)])
  })

  it('keep a subject while room is made for the next one of the same request', () => {
    const w = world({ maxSubjects: 1 })
    const token = subject({ concurrency: 1 }, 1)
    w.take([token, subject({ concurrency: 1 }, 1, 'user')])
    w.refused([token])
  })
})

describe('every sequence of requests', () => {
  const event = fc.oneof(
    fc.record({ is: fc.constant('admit' as const), input: fc.nat(40) }),
    fc.record({ is: fc.constant('end' as const), which: fc.nat(9), tokens: fc.nat(60) }),
    fc.record({ is: fc.constant('pass' as const), ms: fc.nat(25_000) }),
  )

  it('has the same result as a full list of events', () => {
    fc.assert(
      fc.property(fc.array(event, { maxLength: 120 }), events => {
        const w = world()
        const limited = subject({ rpm: 6, tpm: 150, concurrency: 4 })
        let atMs = START_MS
        const admitted: number[] = []
        const used: { second: number; tokens: number }[] = []
        const running: { ticket: Ticket; input: number }[] = []
        const second = () => Math.floor(atMs / 1_000)
        const isRecent = (then: number) => then > second() - 60

        for (const each of events) {
          if (each.is === 'pass') {
            atMs += each.ms
            w.pass(each.ms)
          } else if (each.is === 'end') {
            const [ended] = running.splice(each.which % Math.max(1, running.length), 1)
            ended?.ticket.end(each.tokens)
            if (ended) used.push({ second: second(), tokens: each.tokens })
          } else {
            const requests = admitted.filter(isRecent).length
            const spent = used.filter(one => isRecent(one.second)).reduce((sum, one) => sum + one.tokens, 0)
            const pending = running.reduce((sum, one) => sum + one.input, 0)
            const expected = requests < 6 && spent + pending < 150 && running.length < 4
            assert.equal(w.rates.fullForS(limited) === 0, expected)
            const admission = w.admit([limited], each.input)
            assert.equal(admission.ok, expected)
            if (!admission.ok) {
              assert.ok(admission.retryAfterS >= 1 && admission.retryAfterS <= 60)
              continue
            }
            admitted.push(second())
            running.push({ ticket: admission.ticket, input: each.input })
          }
        }
      }),
      { numRuns: 1_000, seed: 3 },
    )
  })
})

describe('limits shared by several workers', () => {
  const channelOf = (limits: Partial<Subject['limits']>) => subject(limits, 1, 'channel')

  function twoWorkers() {
    let atMs = START_MS
    let callCount = 0
    const rates = createRates({ nowMs: () => atMs })
    const worker = () => {
      const readContext = createRateServer(rates)
      return createSharedRates({
        admit: async (subjects, input) => {
          callCount += 1
          return readContext.admit(subjects, input)
        },
        leave: async id => readContext.leave(id),
        end: async (id, tokens) => readContext.end(id, tokens),
        nowMs: () => atMs,
      })
    }
    const pass = (ms: number) => {
      atMs += ms
    }
    return { one: worker(), other: worker(), pass, asked: () => callCount }
  }

  it('see a slot as free as soon as another worker releases it', async () => {
    const { one, other } = twoWorkers()
    const limited = channelOf({ concurrency: 1 })
    const running = await one.admit([limited], 0)
    assert.ok(running.ok)
    assert.equal((await other.admit([limited], 0)).ok, false)
    running.ticket.leave()
    assert.equal(other.fullForS(limited), 0)
    assert.equal((await other.admit([limited], 0)).ok, true)
  })

  it('remember an exhausted minute, and send no more calls until it is over', async () => {
    const { one, other, pass, asked: countCalls } = twoWorkers()
    const limited = channelOf({ rpm: 1 })
    assert.equal((await one.admit([limited], 0)).ok, true)
    assert.equal((await other.admit([limited], 0)).ok, false)
    assert.equal(countCalls(), 2)
    assert.ok(other.fullForS(limited) > 0)
    pass(60_000)
    assert.equal(other.fullForS(limited), 0)
    assert.equal((await other.admit([limited], 0)).ok, true)
  })

  it('follow a limit that is raised while its minute is exhausted', async () => {
    const { one, other } = twoWorkers()
    const limited = channelOf({ rpm: 1 })
    assert.equal((await one.admit([limited], 0)).ok, true)
    assert.equal((await other.admit([limited], 0)).ok, false)
    const raised = channelOf({ rpm: 2 })
    assert.equal(other.fullForS(raised), 0)
    assert.equal((await other.admit([raised], 0)).ok, true)
  })

  it('see the tokens of a running request as free as soon as it fails on another worker', async () => {
    const { one, other } = twoWorkers()
    const limited = channelOf({ tpm: 10 })
    const running = await one.admit([limited], 10)
    assert.ok(running.ok)
    assert.equal((await other.admit([limited], 10)).ok, false)
    await running.ticket.end(0)
    assert.equal(other.fullForS(limited), 0)
    assert.equal((await other.admit([limited], 10)).ok, true)
  })

  it('remember a minute whose tokens are used up by requests that have ended', async () => {
    const { one, other, pass, asked: countCalls } = twoWorkers()
    const limited = channelOf({ tpm: 10 })
    const first = await one.admit([limited], 0)
    assert.ok(first.ok)
    await first.ticket.end(10)
    assert.equal((await other.admit([limited], 0)).ok, false)
    assert.ok(other.fullForS(limited) > 0)
    assert.equal(countCalls(), 2)
    pass(60_000)
    assert.equal(other.fullForS(limited), 0)
  })
})
