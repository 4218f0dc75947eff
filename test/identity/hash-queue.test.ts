import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { createHashQueue } from '../../src/identity/hash-queue.ts'

const AT_ONCE = 2

/** A queue whose two slots are busy; `release` runs the waiting work and records its order. */
async function busyQueue() {
  const run = createHashQueue()
  const gate = Promise.withResolvers<void>()
  const order: string[] = []
  const refused: string[] = []
  const enter = (name: string, isKnown = false, label = name) =>
    run({ name, isKnown }, async () => {
      order.push(label)
    }).catch(error => {
      assert.equal(error.code, 'overloaded')
      assert.ok(error.retryAfterS > 0)
      refused.push(label)
    })
  const first = Array.from({ length: AT_ONCE }, () =>
    run({ name: 'first', isKnown: true }, () => gate.promise),
  )
  const entered: Promise<unknown>[] = []
  return {
    order,
    refused,
    add: (...args: Parameters<typeof enter>) => void entered.push(enter(...args)),
    async release() {
      gate.resolve()
      await Promise.all([...first, ...entered])
    },
  }
}

describe('the queue for password hashes', () => {
  it('serves requesters in turn, even if one of them has sent many requests', async () => {
    const queue = await busyQueue()
    for (const label of ['a1', 'a2', 'a3']) queue.add('a', false, label)
    queue.add('b')
    queue.add('c')
    await queue.release()
    assert.deepEqual(queue.order, ['a1', 'b', 'c', 'a2', 'a3'])
  })

  it('lets five requests of one requester wait at most', async () => {
    const queue = await busyQueue()
    for (let index = 1; index <= 8; index++) queue.add('a', false, `a${index}`)
    await queue.release()
    assert.deepEqual(queue.order, ['a1', 'a2', 'a3', 'a4', 'a5'])
    assert.deepEqual(queue.refused, ['a6', 'a7', 'a8'])
  })

  it('refuses a request of the requester with the most requests when it is full and another requester arrives', async () => {
    const queue = await busyQueue()
    for (let index = 0; index < 40; index++) queue.add(`n${index >> 2}`, false, `n${index >> 2}.${index & 3}`)
    queue.add('newcomer')
    await queue.release()
    assert.equal(queue.order.length, 40)
    assert.ok(queue.order.indexOf('newcomer') <= 10, String(queue.order))
    assert.equal(queue.refused.length, 1)
    assert.match(queue.refused[0] ?? '', /\.3$/)
  })

  it('refuses a new requester when it is full of requesters with one request each', async () => {
    const queue = await busyQueue()
    for (let index = 0; index < 40; index++) queue.add(`n${index}`)
    queue.add('newcomer')
    await queue.release()
    assert.deepEqual(queue.refused, ['newcomer'])
  })

  it('alternates between known and unknown requesters, and has room for both', async () => {
    const queue = await busyQueue()
    for (let index = 0; index < 40; index++) queue.add(`n${index}`)
    queue.add('alice', true)
    queue.add('bob', true)
    await queue.release()
    assert.deepEqual(queue.refused, [])
    assert.ok(queue.order.indexOf('alice') <= 2 && queue.order.indexOf('bob') <= 4, String(queue.order))
  })

  it('continues after work that failed', async () => {
    const run = createHashQueue()
    const fail = () => run({ name: 'a', isKnown: false }, () => Promise.reject(new Error('no memory')))
    for (let index = 0; index < 5; index++) await assert.rejects(fail(), /no memory/)
    assert.equal(await run({ name: 'a', isKnown: false }, async () => 'done'), 'done')
  })
})
