// Runs before the first paint, so that the page never flashes in another theme, density or language.
try {
  const kept = JSON.parse(localStorage.getItem('sluice.preferences') ?? '{}')
  const root = document.documentElement
  if (kept.theme === 'light' || kept.theme === 'dark') root.dataset.theme = kept.theme
  if (kept.density) root.dataset.density = kept.density
  if (kept.language) root.lang = kept.language
} catch {
  // Without storage the page follows the system's theme.
}
