import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { createSettledQueue, type SettledQueue } from '../../src/ledger/settled-queue.ts'

const recordOf = (lsn: number, text = 'ä€😀"\\') => ({
  lsn,
  body: JSON.stringify({ lsn, text }),
  timeMs: 1_000 + lsn,
})

const pushAll = (queue: SettledQueue, from: number, to: number) => {
  for (let lsn = from; lsn <= to; lsn++) queue.push(recordOf(lsn))
}

const firstLsns = (queue: SettledQueue): number[] =>
  JSON.parse(queue.first()?.json.toString() ?? '[]').map(({ lsn }: { lsn: number }) => lsn)

/** Applies everything that is in the queue, and returns it. */
function drain(queue: SettledQueue): { readonly lsn: number; readonly text: string }[] {
  const all = []
  for (let page = queue.first(); page; page = queue.first()) {
    const records = JSON.parse(page.json.toString())
    assert.equal(records.at(-1).lsn, page.lastLsn)
    all.push(...records)
    queue.removeFirst()
  }
  assert.equal(queue.length(), 0)
  return all
}

const range = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, index) => from + index)

describe('the queue of settled requests', () => {
  it('returns them in order, as JSON arrays of at most so many records', () => {
    const queue = createSettledQueue(3)
    pushAll(queue, 1, 7)
    assert.equal(queue.length(), 7)
    assert.equal(queue.oldestMs(), 1_001)
    assert.equal(queue.lastLsn(), 7)
    assert.deepEqual(firstLsns(queue), [1, 2, 3])
    const all = drain(queue)
    assert.deepEqual(
      all.map(({ lsn }) => lsn),
      range(1, 7),
    )
    assert.ok(all.every(({ text }) => text === 'ä€😀"\\'))
    assert.equal(queue.oldestMs(), undefined)
    assert.equal(queue.lastLsn(), undefined)
  })

  it('does not change a page that was returned, until it is removed', () => {
    const queue = createSettledQueue(10)
    pushAll(queue, 1, 2)
    assert.deepEqual(firstLsns(queue), [1, 2])
    pushAll(queue, 3, 4)
    assert.deepEqual(firstLsns(queue), [1, 2])
    queue.removeFirst()
    assert.deepEqual(firstLsns(queue), [3, 4])
  })

  it('takes records that are larger than a page, and many that fill it', () => {
    const queue = createSettledQueue(1_000)
    const large = 'x'.repeat(1_000_000)
    for (let lsn = 1; lsn <= 40; lsn++) queue.push(recordOf(lsn, lsn % 7 === 0 ? large : 'y'.repeat(30_000)))
    const all = drain(queue)
    assert.deepEqual(
      all.map(({ lsn, text }) => [lsn, text.length]),
      range(1, 40).map(lsn => [lsn, lsn % 7 === 0 ? 1_000_000 : 30_000]),
    )
  })

  it('can be opened as a list, to which new records are added, and applied after that', () => {
    const queue = createSettledQueue(4)
    pushAll(queue, 1, 6)
    queue.first()
    const list = queue.openList()
    assert.deepEqual(
      list.map(({ lsn, body, timeMs }) => ({ lsn, body, timeMs })),
      range(1, 6).map(lsn => recordOf(lsn)),
    )
    queue.setList([recordOf(0), ...list.slice(1)])
    pushAll(queue, 7, 9)
    assert.equal(queue.length(), 9)
    assert.equal(queue.oldestMs(), 1_000)
    assert.deepEqual(
      drain(queue).map(({ lsn }) => lsn),
      [0, ...range(2, 9)],
    )
  })
})
