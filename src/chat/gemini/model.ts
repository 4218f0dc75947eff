/**
 * What depends on the generation of a model and is told nowhere else: `gemini-2.5-flash`, `gemini-3.1-pro-preview`. A name
 * without a number (`gemini-flash-latest`) is that of the newest; one of another family says nothing.
 */
function generationOf(model: string): number | undefined {
  const found = /gemini(?:-[a-z]+)*?-(\d+(?:\.\d+)?)/.exec(model)?.[1]
  if (found !== undefined) return Number(found)
  return model.includes('gemini') ? Number.POSITIVE_INFINITY : undefined
}

/** From the third on effort is said in a word, calls must be signed, and results of tools hold media. */
export const isThirdGeneration = (model: string): boolean => (generationOf(model) ?? 0) >= 3

/** Before 2.5 none could think, and a wish for it is refused. */
export const canThink = (model: string): boolean => (generationOf(model) ?? 3) >= 2.5

const isPro = (model: string): boolean => model.includes('pro')

/** The range of a budget of thought (protocols 2.5); the larger models cannot stop thinking. */
export const budgetRange = (model: string): { readonly min: number; readonly max: number } =>
  isPro(model) ? { min: 128, max: 32_768 } : { min: 0, max: 24_576 }

/** The least effort, for models that cannot be told to make none. */
export const leastLevel = (model: string): string => (isPro(model) ? 'LOW' : 'MINIMAL')

/** The most that a model writes; more is refused. */
export function maxOutputOf(model: string): number | undefined {
  const generation = generationOf(model)
  if (generation === undefined || generation === Number.POSITIVE_INFINITY) return undefined
  return generation < 2.5 ? 8_192 : 65_536
}
