import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import {
  createOnDemandThread,
  type OnDemandThread,
  ThreadEndedError,
} from '../../src/host/on-demand-thread.ts'
import type { TestJob } from '../support/job-thread.ts'

const LONG_MS = 60_000
const threads: OnDemandThread<TestJob, string>[] = []

function openThread(idleMs = LONG_MS) {
  const failures: Error[] = []
  const program = new URL('../support/job-thread.ts', import.meta.url)
  const thread = createOnDemandThread<TestJob, string>({
    program,
    maxHeapMb: 64,
    idleMs,
    onFailure: error => failures.push(error),
  })
  threads.push(thread)
  return { thread, failures }
}

after(() => Promise.all(threads.map(thread => thread.close())))

describe('an on-demand thread', () => {
  it('runs jobs in order and reports an exception to the caller of that job only', async () => {
    const { thread } = openThread()
    const order: string[] = []
    const echo = async (text: string) => order.push(await thread.run({ echo: text }))
    await Promise.all([
      echo('the longest comes first'),
      assert.rejects(thread.run({ fail: 'no luck' }), /no luck/),
      echo('short'),
    ])
    assert.deepEqual(order, ['the longest comes first', 'short'])
    assert.equal(thread.pending(), 0)
    assert.ok(thread.isWarm())
  })

  it('rejects only the job that ended the thread, and runs the others on a new one', async () => {
    const { thread } = openThread()
    const jobs: TestJob[] = [
      { echo: 'a' },
      { isFatal: true },
      { echo: 'b' },
      { isFatal: true },
      { echo: 'c' },
    ]
    const results = await Promise.allSettled(jobs.map(job => thread.run(job)))
    assert.deepEqual(
      results.map(result => (result.status === 'fulfilled' ? result.value : result.reason.endedBy)),
      ['a', 'job', 'b', 'job', 'c'],
    )
  })

  it('loses no job that arrives while an idle thread is ended', async () => {
    const { thread } = openThread(0)
    for (let round = 0; round < 30; round++) {
      assert.equal(await thread.run({ echo: `${round}` }), `${round}`)
      // The timer of an idle thread runs between two jobs.
      await new Promise(resolve => setTimeout(resolve, round % 3))
    }
  })

  it('rejects its jobs when it is closed, and every job after that', async () => {
    const { thread, failures } = openThread()
    const running = assert.rejects(thread.run({ echo: 'late' }), new ThreadEndedError('owner'))
    await thread.close()
    await running
    await assert.rejects(thread.run({ echo: 'later' }), new ThreadEndedError('owner'))
    assert.deepEqual(failures, [])
  })
})
