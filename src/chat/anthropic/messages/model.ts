/**
 * What depends on the generation of a model and is told nowhere else. Names that are not Claude's belong to hosts that
 * speak this format for models of their own, in its first form.
 */
type Version = { readonly major: number; readonly minor: number }

/** `claude-opus-4-6`, `claude-3-5-sonnet-20241022`, `us.anthropic.claude-sonnet-4@20250514` */
function versionOf(model: string): Version | undefined {
  const name = /claude[^/]*/.exec(model)?.[0]
  if (name === undefined) return undefined
  const [major, minor] = name.split(/[-@]/).filter(piece => /^\d{1,2}$/.test(piece))
  return major === undefined ? undefined : { major: Number(major), minor: Number(minor ?? 0) }
}

/** From 4.6 on the model itself decides how long it thinks, and effort is said in a word. */
export function thinksAdaptively(model: string): boolean {
  const version = versionOf(model)
  return version !== undefined && (version.major > 4 || (version.major === 4 && version.minor >= 6))
}

/** From 4.5 on an answer can be held to a schema. */
export function takesSchemas(model: string): boolean {
  const version = versionOf(model)
  return version !== undefined && (version.major > 4 || (version.major === 4 && version.minor >= 5))
}

/** The most a model writes: `max_tokens` must be given, and a small default would cut answers short. */
export function maxOutputOf(model: string): number {
  const version = versionOf(model)
  if (version === undefined) return 8_192
  if (version.major >= 4) return /opus-4(-[01])?([@-]\d{8}|$)/.test(model) ? 32_000 : 64_000
  return version.minor >= 7 ? 64_000 : version.minor >= 5 ? 8_192 : 4_096
}

/** The limit that a request may give: of generations whose most is known, no more than that. */
export function allowedOutput(model: string, wish: number): number {
  const version = versionOf(model)
  if (version === undefined || version.major > 4 || (version.major === 4 && version.minor > 5)) return wish
  return Math.min(wish, maxOutputOf(model))
}

/** From 4.1 on the two ways to narrow what is chosen from exclude each other. */
export function takesOneSampling(model: string): boolean {
  const version = versionOf(model)
  return version !== undefined && (version.major > 4 || (version.major === 4 && version.minor >= 1))
}

/** From Opus 4.7 and the fifth generation on a model is told neither how to choose nor how many tokens to think with. */
export function governsItself(model: string): boolean {
  const version = versionOf(model)
  if (version === undefined) return false
  return version.major > 4 || (version.major === 4 && version.minor >= 7 && model.includes('opus'))
}
