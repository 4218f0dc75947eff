import { createLookup } from './name-pattern.ts'

type SearchingRow = { readonly matches: readonly string[]; readonly searches: number }

/** Models that search the web with every request, and the most searches that one request makes. */
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

/** Searches that a model may make with every request, though the request asks for none; 0 for nearly all models. */
export const searchesOf = (model: string): number => findSearching(model)?.searches ?? 0
