/** The token budget of each reasoning effort, for translations between vendors with efforts and vendors with budgets. */
const BUDGETS: Readonly<Record<string, number>> = {
  minimal: 1_024,
  low: 1_024,
  medium: 4_096,
  high: 16_384,
  xhigh: 32_768,
  max: 65_536,
}

/** Undefined for an effort that only its vendor knows. */
export const budgetOf = (effort: string): number | undefined =>
  Object.hasOwn(BUDGETS, effort) ? BUDGETS[effort] : undefined

/** The lowest effort with at least this budget. */
export function effortOf(budget: number): string {
  if (budget <= 0) return 'none'
  for (const effort of ['low', 'medium', 'high', 'xhigh']) if (budget <= (BUDGETS[effort] ?? 0)) return effort
  return 'max'
}
