const KEY = 'sluice.reloaded'
const ONCE_MS = 10_000

/**
 * After an upgrade of the gateway, an open page requests files that no longer exist. It is reloaded then, but
 * only once, so that a missing file does not cause a reload loop.
 */
export function reloadOnUpgrade(): void {
  addEventListener('vite:preloadError', event => {
    const last = Number(sessionStorage.getItem(KEY) ?? 0)
    if (Date.now() - last < ONCE_MS) return
    sessionStorage.setItem(KEY, String(Date.now()))
    event.preventDefault()
    location.reload()
  })
}
