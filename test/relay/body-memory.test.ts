import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { createBodyMemory } from '../../src/relay/intake/body-memory.ts'
import { formInMemory } from '../../src/relay/intake/memory-form.ts'

const MIB = 1_048_576

describe('the memory of uploads', () => {
  it('is used again for bodies of nearly the same size', () => {
    const memory = createBodyMemory()
    const first = memory.take(MIB + 1)
    assert.ok(first.length > MIB)
    const second = memory.take(MIB + 1)
    assert.notEqual(first, second)
    memory.give(first)
    assert.equal(memory.take(MIB + 1_000), first)
    memory.give(second)
    assert.notEqual(memory.take(3 * MIB), second)
  })

  it('is kept up to 16 MiB', () => {
    const memory = createBodyMemory()
    const all = Array.from({ length: 20 }, () => memory.take(MIB))
    for (const each of all) memory.give(each)
    const again = Array.from({ length: 20 }, () => memory.take(MIB))
    assert.equal(again.filter(each => all.includes(each)).length, 16)
  })

  it('is not read through a form that is disposed of', async () => {
    const boundary = 'b'
    const bytes = Buffer.from(
      `--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\ncontent\r\n--${boundary}--\r\n`,
    )
    const released: Buffer[] = []
    const form = formInMemory({ bytes, boundary, release: () => void released.push(bytes), forget() {} })
    const [file] = form?.files ?? []
    assert.ok(form && file)
    assert.equal((await file.read(0, 7)).toString(), 'content')
    assert.equal(Buffer.concat(file.inMemory?.() ?? []).toString(), 'content')
    form.dispose()
    assert.deepEqual(released, [bytes])
    assert.equal(file.inMemory?.(), undefined)
    await assert.rejects(file.read(0, 7), /after its request/)
    assert.throws(() => file.open(), /after its request/)
  })
})
