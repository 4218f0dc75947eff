import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { describe, it } from 'node:test'
import { returnMemory } from '../../src/host/memory-return.ts'
import { systemTimers } from '../../src/host/timers.ts'

/** A process whose ticks and CPU time the test decides. */
function start() {
  const calls: string[] = []
  let tick = () => {}
  let cpuMs = 5_000
  let trimMs = 1
  const memory = {
    trim() {
      calls.push('trim')
      return trimMs
    },
    collectYoung: () => void calls.push('collect'),
    cpuMs: () => cpuMs,
  }
  const timers = {
    ...systemTimers,
    every(ms: number, run: () => void) {
      assert.equal(ms, 10_000)
      tick = run
      return () => {
        tick = () => {}
      }
    },
  }
  const stop = returnMemory(memory, timers)
  return {
    stop,
    trimTakes(ms: number): void {
      trimMs = ms
    },
    /** What is done after ten seconds in which the process used this much CPU time. */
    after(usedMs: number): string {
      calls.length = 0
      cpuMs += usedMs
      tick()
      return calls.join(' ')
    },
  }
}

const QUIET_MS = 150
const BUSY_MS = 250

describe('the memory of a process', () => {
  it('is trimmed every ten seconds of a load, and its young generation is left alone', () => {
    const { after } = start()
    for (let tick = 0; tick < 20; tick++) assert.equal(after(BUSY_MS), 'trim')
  })

  it('is returned with the young generation after a quiet minute, and then left alone until the next load', () => {
    const { after } = start()
    const quietTicks = () => Array.from({ length: 12 }, () => after(QUIET_MS))
    const returned = ['', '', '', '', '', ...Array(3).fill('collect trim'), '', '', '', '']
    assert.deepEqual(quietTicks(), returned)
    assert.equal(after(BUSY_MS), 'trim')
    assert.deepEqual(quietTicks(), returned)
  })

  it('is not returned while quiet seconds are shorter than a minute', () => {
    const { after } = start()
    for (let round = 0; round < 5; round++) {
      for (let tick = 0; tick < 5; tick++) assert.equal(after(QUIET_MS), '')
      assert.equal(after(BUSY_MS), 'trim')
    }
  })

  it('is trimmed every five minutes of a load only, if that takes long', () => {
    const { after, trimTakes } = start()
    const ticks = (count: number) => Array.from({ length: count }, () => after(BUSY_MS))
    const waited = Array(29).fill('')
    trimTakes(40)
    assert.deepEqual(ticks(31), ['trim', ...waited, 'trim'])
    trimTakes(2)
    assert.deepEqual(ticks(32), [...waited, 'trim', 'trim', 'trim'])
  })

  it('is trimmed after a quiet minute also if that takes long', () => {
    const { after, trimTakes } = start()
    trimTakes(40)
    assert.equal(after(BUSY_MS), 'trim')
    const returned = Array.from({ length: 8 }, () => after(QUIET_MS))
    assert.deepEqual(returned, ['', '', '', '', '', ...Array(3).fill('collect trim')])
  })

  it('is no longer returned once that is stopped', () => {
    const { after, stop } = start()
    stop()
    assert.equal(after(BUSY_MS), '')
  })
})

/** Runs a program in a process of its own, whose memory nothing else uses. */
const run = (code: string, flags: readonly string[] = ['--expose-gc']): string =>
  execFileSync(process.execPath, [...flags, '--input-type=module', '--eval', code], {
    cwd: new URL('../..', import.meta.url),
    encoding: 'utf8',
    // Its warnings are part of what is checked.
    stdio: ['ignore', 'pipe', 'pipe'],
  })

const isGlibc = () =>
  process.platform === 'linux' &&
  'glibcVersionRuntime' in (process.report.getReport() as { header: Record<string, unknown> }).header

describe('malloc_trim', () => {
  it('returns what malloc keeps, and Node.js prints no warning', { skip: !isGlibc() }, () => {
    const mib = Number(
      run(`
        import { findTrim } from './src/host/memory-return.ts'
        process.on('warning', warning => { console.log(warning.message); process.exit(1) })
        const trim = findTrim()
        let blocks = Array.from({ length: 10_000 }, () => Buffer.allocUnsafeSlow(16_384).fill(1))
        // The last block keeps malloc from returning those before it.
        const last = blocks.at(-1)
        const before = process.memoryUsage.rss()
        blocks = undefined
        gc()
        let returned = 0
        // Garbage is freed by a thread.
        const deadlineMs = Date.now() + 60_000
        while (returned < 100 && Date.now() < deadlineMs) {
          await new Promise(resolve => setTimeout(resolve, 50))
          trim()
          returned = (before - process.memoryUsage.rss()) / 1_048_576
        }
        console.log(returned, last.length === 0 ? '' : '')
      `),
    )
    assert.ok(mib >= 100, `${mib} MiB were returned`)
  })
})

describe('a collection of the young generation', () => {
  it('makes it small again, without a flag of the start', () => {
    const [before, afterwards] = JSON.parse(
      run(
        `
        import { getHeapSpaceStatistics } from 'node:v8'
        import { createYoungCollection } from './src/host/memory-return.ts'
        const youngMib = () =>
          getHeapSpaceStatistics().find(space => space.space_name === 'new_space').physical_space_size / 1_048_576
        const objects = []
        for (let count = 0; count < 3_000_000; count++) objects[count % 50_000] = { count, text: String(count) }
        const before = youngMib()
        objects.length = 0
        const collect = createYoungCollection()
        // V8 must have seen few allocations for a while.
        const deadlineMs = Date.now() + 60_000
        while (youngMib() > 2 && Date.now() < deadlineMs) {
          await new Promise(resolve => setTimeout(resolve, 100))
          collect()
        }
        console.log(JSON.stringify([before, youngMib()]))
      `,
        [],
      ),
    )
    assert.ok(before > 4, `the young generation was ${before} MiB`)
    assert.ok(afterwards <= 2, `the young generation is ${afterwards} MiB`)
  })
})
