/** Comments and pages of HTML begin no answer; a line of data does, or the name of an event that is no error. */
const EVENT_BEGUN = /^(?:\u00ef\u00bb\u00bf)?(?:data:|event:(?! ?error$))/
const LINE_END = /[\r\n]/

/** Looks for the beginning of the first event in a stream of server-sent events. Every byte is looked at once. */
export function createPrelude() {
  let line = ''

  return {
    /** Whether an event has begun with this chunk. An unfinished line counts only where it is the last chance. */
    begins(chunk: Buffer, isLastChance: boolean): boolean {
      const lines = chunk.toString('latin1').split(LINE_END)
      lines[0] = line + lines[0]
      line = lines.pop() ?? ''
      return lines.some(each => EVENT_BEGUN.test(each)) || (isLastChance && EVENT_BEGUN.test(line))
    },
  }
}
