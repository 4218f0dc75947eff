import type { UsageFilters } from './usage-filters.ts'

/** Facets of requests. A filter matches one value, any of several, or excludes some. */
export const FACETS = {
  model: { one: 'model', several: 'models', none: 'not_models', name: 'q' },
  channel: { one: 'channel', several: 'channels', none: 'not_channels', name: undefined },
  token: { one: 'token_id', several: 'token_ids', none: 'not_token_ids', name: 'token' },
  user: { one: 'user_id', several: 'user_ids', none: 'not_user_ids', name: 'user' },
  error: { one: undefined, several: 'error_code', none: undefined, name: undefined },
} as const satisfies Record<
  string,
  {
    readonly one: keyof UsageFilters | undefined
    readonly several: keyof UsageFilters
    readonly none: keyof UsageFilters | undefined
    /** A text filter of the same field, which a choice replaces. */
    readonly name: keyof UsageFilters | undefined
  }
>
export type UsageFacet = keyof typeof FACETS

export type FacetChoice = { readonly values: readonly string[]; readonly isNot: boolean }

const split = (text: string | undefined) => text?.split(',') ?? []

export function chosenOf(filters: UsageFilters, facet: UsageFacet): FacetChoice {
  const { one, several, none } = FACETS[facet]
  if (none && filters[none]) return { values: split(filters[none]), isNot: true }
  const single = one && filters[one]
  return { values: single === undefined ? split(filters[several]) : [String(single)], isNot: false }
}

/** A single value uses its own filter, which has an index. Several values use a list. */
export function choosing(facet: UsageFacet, { values, isNot }: FacetChoice): Partial<UsageFilters> {
  const { one, several, none, name } = FACETS[facet]
  const [first] = values
  const list = values.length === 0 ? undefined : values.join(',')
  const isOne = !isNot && one !== undefined && values.length === 1
  return {
    ...(name && { [name]: undefined }),
    ...(one && { [one]: isOne ? (one === 'model' ? first : Number(first)) : undefined }),
    [several]: isNot || isOne ? undefined : list,
    ...(none && { [none]: isNot ? list : undefined }),
    cursor: undefined,
  }
}
