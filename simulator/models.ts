/** The models that the simulator lists. It also answers for any other name. */
export const MODELS = [
  { id: 'sim-small', owner: 'simulator' },
  { id: 'sim-large', owner: 'simulator' },
  { id: 'sim-words-50', owner: 'simulator' },
  // Names with a public price, so that a demo shows realistic costs.
  { id: 'gpt-4o', owner: 'openai' },
  { id: 'gpt-4o-mini', owner: 'openai' },
  { id: 'gpt-4.1', owner: 'openai' },
  { id: 'gpt-4.1-mini', owner: 'openai' },
  { id: 'gpt-4.1-nano', owner: 'openai' },
  { id: 'gpt-5-mini', owner: 'openai' },
] as const

export type Model = { readonly id: string; readonly owner: string }

/** A listed model, or one whose name controls the simulator (`sim-words-200`). */
export function findModel(id: string): Model | undefined {
  const listed = MODELS.find(model => model.id === id)
  if (listed !== undefined) return listed
  return id.startsWith('sim-') ? { id, owner: 'simulator' } : undefined
}
