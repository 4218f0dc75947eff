import { setTimeout as sleep } from 'node:timers/promises'

const ANSWER_MS = 60_000

type Reply = { readonly id: number; readonly result?: unknown; readonly error?: { readonly message: string } }

/** A profile of V8: samples of nodes of the call tree, and the microseconds between them. */
export type CpuProfile = {
  readonly nodes: readonly {
    readonly id: number
    readonly callFrame: {
      readonly functionName: string
      readonly url: string
      readonly lineNumber: number
      readonly columnNumber: number
    }
  }[]
  readonly samples: readonly number[]
  readonly timeDeltas: readonly number[]
}

const SAMPLE_EVERY_US = 500

/** Inspects a process that was started with `--inspect`; the gateway itself has no code for this. */
export async function openInspector(port: number) {
  const [target] = (await (await fetch(`http://127.0.0.1:${port}/json/list`)).json()) as {
    webSocketDebuggerUrl: string
  }[]
  if (!target) throw new Error('the inspected process has no inspector target')
  const socket = new WebSocket(target.webSocketDebuggerUrl)
  await new Promise((resolve, reject) => {
    socket.addEventListener('open', resolve, { once: true })
    socket.addEventListener('error', () => reject(new Error('the inspector cannot be reached')), {
      once: true,
    })
  })
  const waiting = new Map<number, (reply: Reply) => void>()
  socket.addEventListener('message', ({ data }) => {
    const reply = JSON.parse(String(data)) as Reply
    waiting.get(reply.id)?.(reply)
  })
  let last = 0

  function send<Result>(method: string, params: object = {}): Promise<Result> {
    const id = ++last
    return new Promise<Result>((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`no answer to ${method}`)), ANSWER_MS)
      waiting.set(id, ({ result, error }) => {
        clearTimeout(timer)
        waiting.delete(id)
        if (error) reject(new Error(`${method}: ${error.message}`))
        else resolve(result as Result)
      })
      socket.send(JSON.stringify({ id, method, params }))
    })
  }

  async function evaluate(expression: string): Promise<number> {
    const { result } = await send<{ result: { value: number } }>('Runtime.evaluate', {
      expression,
      returnByValue: true,
    })
    return result.value
  }

  return {
    evaluate,
    /** The live heap after a garbage collection, in MiB. */
    async liveHeapMib(): Promise<number> {
      for (let i = 0; i < 2; i++) {
        await send('HeapProfiler.collectGarbage')
        await sleep(100)
      }
      return (await evaluate('process.memoryUsage().heapUsed')) / 1_048_576
    },
    /** Profiles the main thread during some work. */
    async profile<Result>(work: () => Promise<Result>): Promise<{ result: Result; profile: CpuProfile }> {
      await send('Profiler.enable')
      await send('Profiler.setSamplingInterval', { interval: SAMPLE_EVERY_US })
      await send('Profiler.start')
      const result = await work()
      const { profile } = await send<{ profile: CpuProfile }>('Profiler.stop')
      return { result, profile }
    },
    close: () => socket.close(),
  }
}
