import type { StreamMeter } from './operations/operation.ts'
import type { Flow } from './upstream.ts'

/** Reads a stream to its end for what it tells, and passes nothing on. What was wrong with it, if anything was. */
export function deliverNowhere(flow: Flow, meter: StreamMeter): Promise<string | undefined> {
  return new Promise(resolve => {
    flow.listen({
      data(chunk) {
        try {
          meter.push(chunk)
        } catch (error) {
          resolve((error as Error).message)
        }
      },
      end() {
        meter.end()
        const ending = meter.ending()
        resolve(ending === 'complete' ? undefined : `the stream was ${ending}`)
      },
      fail: failure => resolve(`${failure.reason}: ${failure.message}`),
    })
  })
}
