const KEY = 'sluice.reloaded'
const ONCE_MS = 10_000

/**
 * A gateway that was replaced by a newer one has other files: a page that was open meanwhile asks for some that are gone,
 * and is loaded anew. Once: files that are missing for another reason must not make it turn in circles.
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
