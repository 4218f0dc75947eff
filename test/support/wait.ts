import { setTimeout as delay } from 'node:timers/promises'

/**
 * The longest wait of a test. It costs nothing if it is not reached, and a busy machine reaches every shorter one. A wait for
 * something that takes the product itself longer is a multiple of it.
 */
export const WAIT_MS = 60_000

/** The pause between two polls of `until`: at the beginning, and after some seconds. */
const LEAST_PAUSE_MS = 20
const MOST_PAUSE_MS = 200

/** Polls until a value is present; names what was waited for if it never is. */
export async function until<T>(
  what: string,
  look: () => T | undefined | Promise<T | undefined>,
  withinMs = WAIT_MS,
): Promise<T> {
  const begin = Date.now()
  for (;;) {
    const value = await look()
    if (value !== undefined) return value
    const waitedMs = Date.now() - begin
    if (waitedMs > withinMs) throw new Error(`waited in vain for ${what}`)
    // A long wait is polled less often: many polls are requests to the gateway that is waited for.
    await delay(Math.min(Math.max(LEAST_PAUSE_MS, waitedMs / 20), MOST_PAUSE_MS))
  }
}
