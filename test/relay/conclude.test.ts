import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { settleUnconcluded } from '../../src/relay/conclude.ts'

type Request = Parameters<typeof settleUnconcluded>[0]
type Outcome = Parameters<typeof settleUnconcluded>[1]

describe('an answer that the gateway failed to deliver', () => {
  for (const kind of ['buffered', 'stream'] as const)
    it(`frees the slot of its channel and ends its exchange: ${kind}`, async () => {
      const calls: string[] = []
      const outcome = {
        kind,
        step: { channel: { id: 1 } },
        trace: { failures: [], attempts: [] },
        ticket: { end: (tokens: number) => void calls.push(`ticket ${tokens}`) },
        health: { end: ({ kind: ending }: { kind: string }) => void calls.push(`health ${ending}`) },
        exchange: { abort: () => void calls.push('abort') },
      }
      const request = { hold: { hasEnded: () => true } }
      const error = new Error('The headers could not be sent.')
      await settleUnconcluded(request as unknown as Request, outcome as unknown as Outcome, error)
      assert.deepEqual(calls, ['abort', 'health client', 'ticket 0'])
    })
})
