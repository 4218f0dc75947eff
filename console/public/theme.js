// Runs before the first paint, so that a chosen theme, density or language never flashes by in another one.
try {
  const kept = JSON.parse(localStorage.getItem('sluice.preferences') ?? '{}')
  const root = document.documentElement
  if (kept.theme === 'light' || kept.theme === 'dark') root.dataset.theme = kept.theme
  if (kept.density) root.dataset.density = kept.density
  if (kept.language) root.lang = kept.language
} catch {
  // Storage may be closed to us; the system's theme is a good one too.
}
