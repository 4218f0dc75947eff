import type { StreamFrame } from './format.ts'

export const EVENT_STREAM = 'text/event-stream; charset=utf-8'

/** Interleaves the frames of the choices, one frame each, as the real provider does. */
export function* interleave<Frame>(generators: readonly Generator<Frame>[]): Generator<Frame> {
  let speaking = generators
  while (speaking.length > 0) {
    const still: Generator<Frame>[] = []
    for (const speaker of speaking) {
      const { done, value } = speaker.next()
      if (done === true) continue
      yield value
      still.push(speaker)
    }
    speaking = still
  }
}

/**
 * The text around the choices of every chunk, built once, because only the choices differ. If usage is requested, it is
 * `null` in every chunk but the last.
 */
export function wrapChunks(common: object, usage: object | undefined) {
  const head = `data: ${JSON.stringify(common).slice(0, -1)},"choices":[`
  const tail = usage === undefined ? ']}\n\n' : '],"usage":null}\n\n'
  function* close(): Generator<StreamFrame> {
    if (usage !== undefined) yield { data: `${head}],"usage":${JSON.stringify(usage)}}\n\n`, tokens: 0 }
    yield { data: 'data: [DONE]\n\n', tokens: 0 }
  }
  return { head, tail, close }
}

/** One event. */
export const eventOf = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`
