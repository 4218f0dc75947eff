import { createLookup } from './name-pattern.ts'

type SearchingRow = { readonly matches: readonly string[]; readonly searches: number }

/** Models that search the web on every request, and the maximum number of searches per request. */
export const SEARCHING = [
  { matches: ['sonar-deep-research*', '*/sonar-deep-research*'], searches: 50 },
  { matches: ['sonar', 'sonar-*', '*/sonar', '*/sonar-*'], searches: 1 },
  {
    matches: ['*-search-preview', '*-search-preview-20*', '*-search-api', '*-search-api-20*'],
    searches: 1,
  },
  { matches: ['compound', 'compound-*', '*/compound', '*/compound-*'], searches: 10 },
  { matches: ['*:online'], searches: 1 },
] as const satisfies readonly SearchingRow[]

const findSearching = createLookup<SearchingRow>(SEARCHING)

/** The searches that a model may run even if the request has no search tool; 0 for nearly all models. */
export const searchesOf = (model: string): number => findSearching(model)?.searches ?? 0
