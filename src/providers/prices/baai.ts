import type { VendorPrices } from './vendor-prices.ts'

export const baai = {
  owner: 'baai',
  models: {
    // An open model that its users host themselves.
    'bge-reranker-v2-m3': { per_search: 0 },
  },
} satisfies VendorPrices
