export type ResponseEvent = 'close' | 'drain'

type Registration = {
  readonly event: ResponseEvent
  readonly listener: () => void
  readonly isOnce: boolean
}

/** The listeners of a response. Most responses have none, and share this list. */
export type Listeners = readonly Registration[]
export const NO_LISTENERS: Listeners = []

export const withListener = (listeners: Listeners, registration: Registration): Listeners => [
  ...listeners,
  registration,
]

/** Without the last registration of this listener, as in an EventEmitter. */
export function withoutListener(listeners: Listeners, event: ResponseEvent, listener: () => void): Listeners {
  const index = listeners.findLastIndex(each => each.event === event && each.listener === listener)
  return index === -1 ? listeners : listeners.toSpliced(index, 1)
}
