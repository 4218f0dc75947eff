import assert from 'node:assert/strict'
import { appendFileSync, mkdtempSync, readFileSync, renameSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { createFileDelivery } from '../../src/telemetry/file-delivery.ts'

const folder = mkdtempSync(join(tmpdir(), 'sluice-lines-'))
after(() => rmSync(folder, { recursive: true, force: true }))

const line = (id: number, text = '') => Buffer.from(`${JSON.stringify({ id, text })}\n`)
const idsIn = (path: string) =>
  readFileSync(path, 'utf8')
    .trimEnd()
    .split('\n')
    .flatMap(each => {
      try {
        return [JSON.parse(each).id as number]
      } catch {
        return []
      }
    })

describe('JSON lines in a file (docs/reference/shipping.md: Streams)', () => {
  it('begin on a new line if an earlier process was killed while it wrote one', async () => {
    const path = join(folder, 'cut.jsonl')
    const { deliver } = createFileDelivery(path)
    assert.equal((await deliver(line(1))).kind, 'delivered')
    appendFileSync(path, '{"id":2,"te')
    assert.equal((await createFileDelivery(path).deliver(line(2))).kind, 'delivered')
    assert.equal((await deliver(line(3))).kind, 'delivered')
    assert.deepEqual(idsIn(path), [1, 2, 3])
    assert.equal(statSync(path).mode & 0o777, 0o600)
  })

  it('continue in a new file when the file is renamed', async () => {
    const path = join(folder, 'rotated.jsonl')
    const { deliver } = createFileDelivery(path)
    await deliver(line(1))
    renameSync(path, `${path}.1`)
    await deliver(line(2))
    assert.deepEqual([idsIn(`${path}.1`), idsIn(path)], [[1], [2]])
  })

  it('of several workers do not mix', async () => {
    const path = join(folder, 'shared.jsonl')
    const workers = [createFileDelivery(path), createFileDelivery(path)]
    const batchOf = (first: number) =>
      Buffer.concat(Array.from({ length: 400 }, (_, index) => line(first + index, 'x'.repeat(4_000))))
    await Promise.all([0, 400, 800, 1_200].map((first, index) => workers[index % 2]?.deliver(batchOf(first))))
    assert.deepEqual(
      idsIn(path).toSorted((a, b) => a - b),
      Array.from({ length: 1_600 }, (_, id) => id),
    )
  })
})
