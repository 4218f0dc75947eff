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

  it('is not trimmed again under load if that took long, but after the load', () => {
    const { after, trimTakes } = start()
    trimTakes(40)
    assert.equal(after(BUSY_MS), 'trim')
    for (let tick = 0; tick < 5; tick++) assert.equal(after(BUSY_MS), '')
    trimTakes(2)
    const returned = Array.from({ length: 8 }, () => after(QUIET_MS))
    assert.deepEqual(returned, ['', '', '', '', '', ...Array(3).fill('collect trim')])
    assert.equal(after(BUSY_MS), 'trim')
  })

  it('is no longer returned once that is stopped', () => {
    const { after, stop } = start()
    stop()
    assert.equal(after(BUSY_MS), '')
  })
})

/** Runs a program in a process of its own, whose memory nothing else uses. */
const run = (code: string): string =>
  execFileSync(process.execPath, ['--expose-gc', '--input-type=module', '--eval', code], {
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
        blocks = undefined
        gc()
        // Garbage is freed by a thread.
        await new Promise(resolve => setTimeout(resolve, 500))
        const before = process.memoryUsage.rss()
        trim()
        console.log((before - process.memoryUsage.rss()) / 1_048_576, last.length === 0 ? '' : '')
      `),
    )
    assert.ok(mib > 100, `${mib} MiB were returned`)
  })
})
