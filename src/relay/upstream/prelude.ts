/** A stream starts with a data line, or with the name of an event other than an error. Comments and HTML do not count. */
const EVENT_BEGUN = /^(?:\u00ef\u00bb\u00bf)?(?:data:|event:(?! ?error$))/
const LINE_END = /[\r\n]/

/** Finds the start of the first event in a stream of server-sent events. It scans every byte once. */
export function createPrelude() {
  let line = ''

  return {
    /** Whether an event has started within this chunk. An unfinished line only counts on the last chance. */
    begins(chunk: Buffer, isLastChance: boolean): boolean {
      const lines = chunk.toString('latin1').split(LINE_END)
      lines[0] = line + lines[0]
      line = lines.pop() ?? ''
      return lines.some(each => EVENT_BEGUN.test(each)) || (isLastChance && EVENT_BEGUN.test(line))
    },
  }
}
