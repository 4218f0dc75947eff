export type Catalogue = Readonly<Record<string, string>>

/** A message may contain another one as its reason. */
const MAX_DEPTH = 2

const patterns = new WeakMap<Catalogue, readonly (readonly [RegExp, string])[]>()

/** Messages with values, longest first, so that the most specific pattern matches. */
function patternsOf(catalogue: Catalogue) {
  const cachedPatterns = patterns.get(catalogue)
  if (cachedPatterns) return cachedPatterns
  const compiledPatterns = Object.entries(catalogue)
    .filter(([english]) => english.includes('{}'))
    .toSorted(([a], [b]) => b.length - a.length)
    .map(([english, ours]) => {
      const fixed = english.split('{}').map(part => part.replace(/[.*+?^$()|[\]\\]/g, '\\$&'))
      return [new RegExp(`^${fixed.join('(.+?)')}$`), ours] as const
    })
  patterns.set(catalogue, compiledPatterns)
  return compiledPatterns
}

/** Translates a message with a catalogue, or returns it unchanged. */
export function translate(catalogue: Catalogue, text: string, depth = 0): string {
  const whole = catalogue[text]
  if (whole !== undefined) return whole
  for (const [pattern, ours] of patternsOf(catalogue)) {
    const filled = pattern.exec(text)?.slice(1)
    if (!filled) continue
    const inner = depth < MAX_DEPTH ? filled.map(part => translate(catalogue, part, depth + 1)) : filled
    let at = 0
    return ours.replaceAll('{}', () => inner[at++] ?? '')
  }
  return text
}
