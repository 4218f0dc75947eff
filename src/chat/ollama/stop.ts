import type { StopReason } from '../hub/hub.ts'

/** `load` and `unload` answer requests without messages. After tool calls the reason is still `stop`. */
export function decodeStop(vendorReason: unknown, hasCalls: boolean): StopReason {
  if (vendorReason === 'length') return 'length'
  return hasCalls ? 'tools' : 'stop'
}
