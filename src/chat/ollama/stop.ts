import type { StopReason } from '../hub/hub.ts'

/** `load` and `unload` answer requests that say nothing. Calls are told by being there: the word is still `stop`. */
export function decodeStop(word: unknown, hasCalls: boolean): StopReason {
  if (word === 'length') return 'length'
  return hasCalls ? 'tools' : 'stop'
}
