import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { isQuickToCompare } from '../../src/manage/usage/schema-steps.ts'

const alternatives = (count: number) => ({
  type: 'array',
  items: { anyOf: Array.from({ length: count }, () => ({ type: 'null' })) },
})

/** The most zeros that a list may have to be compared with a schema. */
function mostZeros(schema: object): number {
  let least = 1
  let most = 10_000
  while (most - least > 1) {
    const middle = Math.floor((least + most) / 2)
    if (isQuickToCompare(schema, Array(middle).fill(0))) least = middle
    else most = middle
  }
  return least
}

describe('the steps of a comparison with a JSON schema', () => {
  it('are those of all alternatives for each value', () => {
    const counts = [50, 100, 200, 400].map(count => mostZeros(alternatives(count)))
    for (const [index, count] of counts.slice(1).entries()) {
      const ratio = (counts[index] as number) / count
      assert.ok(ratio > 1.8 && ratio < 2.2, `${counts}`)
    }
  })

  it('are those of all schemas that are merged, for each value', () => {
    const merged = (count: number) => ({ allOf: Array.from({ length: count }, () => ({ type: 'array' })) })
    const counts = [100, 200, 400].map(count => mostZeros(merged(count)))
    for (const [index, count] of counts.slice(1).entries()) {
      const ratio = (counts[index] as number) / count
      assert.ok(ratio > 1.8 && ratio < 2.2, `${counts}`)
    }
  })
})
