import type { StreamMeter } from '../operations/channel-request.ts'
import type { Flow } from '../upstream/exchange.ts'

/** Reads a stream to its end without forwarding it. Resolves to its fault; undefined: it is complete. */
export function consumeStream(flow: Flow, meter: StreamMeter): Promise<string | undefined> {
  return new Promise(resolve => {
    const conclude = () => {
      const ending = meter.ending()
      resolve(ending === 'complete' ? undefined : `the stream was ${ending}`)
    }
    flow.listen({
      data(chunk) {
        try {
          meter.push(chunk)
          if (meter.reading.isDone || meter.reading.error !== undefined) conclude()
        } catch (error) {
          resolve((error as Error).message)
        }
      },
      end() {
        meter.end()
        conclude()
      },
      fail: failure => resolve(`${failure.reason}: ${failure.message}`),
    })
  })
}
