import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { createIdleReturns, type LeaseState } from '../../src/app/idle-returns.ts'

const ACCOUNT = { kind: 'token', ownerId: 2 } as const

describe('the return of idle leases on other machines (docs/reference/money.md: Leases)', () => {
  function returnsWith({ missing, leases }: { missing: readonly string[]; leases: () => LeaseState[] }) {
    let reads = 0
    const returnIdle = createIdleReturns({
      callOthers: async () => missing.map(nodeId => ({ nodeId })),
      async leaseStates(nodeIds) {
        if (nodeIds.length > 0) reads += 1
        return leases()
      },
      monotonicMs: () => 0,
    })
    return { returnIdle: () => returnIdle([ACCOUNT]), reads: () => reads }
  }
  const leaseOf = (amount: number, changeNumber: number): LeaseState => ({
    ...ACCOUNT,
    nodeId: 'b',
    amount,
    changeNumber,
  })

  it('fails if a node with a lease does not respond', async () => {
    const { returnIdle } = returnsWith({ missing: ['b'], leases: () => [leaseOf(5, 1)] })
    await assert.rejects(returnIdle(), /the node b has leased from the account/)
  })

  it('decides nothing if a silent node is connected again and leases before the decision', async () => {
    let lease = leaseOf(0, 1)
    const { returnIdle } = returnsWith({ missing: ['b'], leases: () => [lease] })
    const { mustStillHold } = await returnIdle()
    await mustStillHold()
    lease = leaseOf(3_120, 2)
    await assert.rejects(mustStillHold(), /connected again/)
    // The node has returned the lease since, but the store had less when the request was decided.
    lease = leaseOf(0, 3)
    await assert.rejects(mustStillHold(), /connected again/)
  })

  it('reads nothing from the store before a decision if all nodes have responded', async () => {
    const { returnIdle, reads } = returnsWith({ missing: [], leases: () => [] })
    await (await returnIdle()).mustStillHold()
    assert.equal(reads(), 0)
  })
})
