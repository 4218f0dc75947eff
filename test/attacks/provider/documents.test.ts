import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { createAssembler } from '../../../src/chat/hub/assembler.ts'
import { Gatherer } from '../../../src/wire/gather.ts'
import { parseInSlices, writeInSlices } from '../../../src/wire/json-slices.ts'

const MB = 1_048_576

describe('large documents from a provider', () => {
  /** How often the event loop turns until this is done. */
  async function turnsOf(work: () => Promise<unknown>): Promise<number> {
    let turns = 0
    let isDone = false
    const turn = () => {
      turns += 1
      if (!isDone) setImmediate(turn)
    }
    setImmediate(turn)
    await work()
    isDone = true
    return turns
  }

  it('are parsed and written with event loop turns for other requests in between', async () => {
    const value = {
      text: 'x'.repeat(16 * MB),
      vector: Array.from({ length: 500_000 }, (_, index) => index / 3),
    }
    const bytes = await writeInSlices(value)
    assert.ok((await turnsOf(() => parseInSlices(bytes))) > 50)
    assert.ok((await turnsOf(() => writeInSlices(value))) > 50)
  })

  it('that arrive byte by byte use memory for their bytes only', () => {
    const gathered = new Gatherer()
    const byte = Buffer.from('x')
    for (let i = 0; i < 200_000; i++) gathered.push(byte)
    assert.equal(gathered.size(), 200_000)
    assert.ok(gathered.take().length < 10)
  })

  it('may not leave an unlimited number of parts unfinished', () => {
    const assembler = createAssembler(0, () => {})
    const open = () => assembler.open({ type: 'toolCall', id: 'a', name: 'f', arguments: '{' })
    assert.throws(() => {
      for (let i = 0; i < 1_000; i++) open()
    }, /unfinished parts/)
  })

  it('with many open tool calls are not parsed again with each new part', () => {
    const events: unknown[] = []
    const assembler = createAssembler(0, event => events.push(event))
    const call = { type: 'toolCall', id: 'a', name: 'f', arguments: '' } as const
    const first = assembler.open(call)
    assembler.add(first, { text: `{"a":"${'x'.repeat(4 * MB)}` })
    for (let i = 0; i < 2_000; i++) assembler.append('text', 'y')
    const closed = (part: number) =>
      events.some(
        event =>
          (event as { type: string; part: number }).type === 'close' &&
          (event as { part: number }).part === part,
      )
    assert.ok(!closed(first))
    assembler.add(first, { text: '"}' })
    assembler.open({ ...call, id: 'b' })
    assert.ok(closed(first))
  })
})
