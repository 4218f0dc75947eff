import type { Timers } from '../../src/host/timers.ts'

type Timer = { readonly atMs: number; readonly serial: number; run: (() => void) | undefined }

const isBefore = (a: Timer, b: Timer) => a.atMs < b.atMs || (a.atMs === b.atMs && a.serial < b.serial)

/** A binary heap: the earliest timer is the first element. */
function createTimerHeap() {
  const heap: Timer[] = []
  const at = (index: number) => heap[index] as Timer
  return {
    first: () => heap[0],
    add(timer: Timer): void {
      let index = heap.push(timer) - 1
      while (index > 0) {
        const parent = (index - 1) >> 1
        if (isBefore(at(parent), timer)) break
        heap[index] = at(parent)
        index = parent
      }
      heap[index] = timer
    },
    removeFirst(): void {
      const last = heap.pop() as Timer
      if (heap.length === 0) return
      let index = 0
      for (;;) {
        let child = 2 * index + 1
        if (child >= heap.length) break
        if (child + 1 < heap.length && isBefore(at(child + 1), at(child))) child += 1
        if (isBefore(last, at(child))) break
        heap[index] = at(child)
        index = child
      }
      heap[index] = last
    },
  }
}

/** Lets all promises that can settle now do so. */
const settle = () => new Promise<void>(resolve => setImmediate(resolve))

/** A clock that stands still while code runs, and jumps to the next timer. The same seed gives the same order of events. */
export function createVirtualTime() {
  let nowMs = 0
  let serial = 0
  const timers = createTimerHeap()

  function after(ms: number, run: () => void): () => void {
    const timer: Timer = { atMs: nowMs + ms, serial: ++serial, run }
    timers.add(timer)
    return () => {
      timer.run = undefined
    }
  }

  function every(ms: number, run: () => void): () => void {
    let cancel = after(ms, tick)
    function tick(): void {
      cancel = after(ms, tick)
      run()
    }
    return () => cancel()
  }

  function wait(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise(resolve => {
      if (signal?.aborted) return resolve()
      const cancel = after(ms, resolve)
      signal?.addEventListener('abort', () => {
        cancel()
        resolve()
      })
    })
  }

  return {
    nowMs: () => nowMs,
    wait,
    after,
    every,
    endOfTurn: (run: () => void) => void after(0, run),
    /** Runs all timers until then. `onStep` is called after each, when every promise that could settle has settled. */
    async run(untilMs: number, onStep?: () => void): Promise<void> {
      await settle()
      for (;;) {
        const first = timers.first()
        if (!first || first.atMs > untilMs) break
        timers.removeFirst()
        if (!first.run) continue
        nowMs = Math.max(nowMs, first.atMs)
        first.run()
        await settle()
        onStep?.()
      }
      nowMs = Math.max(nowMs, untilMs)
    },
  } satisfies Timers & Record<string, unknown>
}

export type VirtualTime = ReturnType<typeof createVirtualTime>
