export type ModelFilters = {
  p?: number | undefined
  q?: string | undefined
  tab?: string | undefined
  route?: string | undefined
}
