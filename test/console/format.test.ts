import assert from 'node:assert/strict'
import { describe, it } from 'node:test'

/** The preferences set attributes of the document. */
Object.assign(globalThis, { document: { documentElement: { dataset: {} } }, addEventListener() {} })
/** By its address, because the types of the console need a browser's. */
const FORMAT = new URL('../../console/src/look/format.ts', import.meta.url).href
const { span } = (await import(FORMAT)) as { span(ms: number): string }

describe('durations of the console', () => {
  it('are rounded before they are divided into units', () => {
    assert.deepEqual(
      [842, 999.6, 1840, 59_999, 72_000, 119_600].map(ms => span(ms)),
      [
        '842\u00a0ms',
        '1\u00a0s',
        '1.84\u00a0s',
        '1\u00a0min\u00a00\u00a0s',
        '1\u00a0min\u00a012\u00a0s',
        '2\u00a0min\u00a00\u00a0s',
      ],
    )
  })
})
