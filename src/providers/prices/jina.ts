import type { VendorPrices } from './vendor-prices.ts'

export const jina = {
  owner: 'jina',
  models: {
    // A reranker has no output tokens.
    'jina-reranker-v2-base-multilingual': { input: 0.05 },
  },
} satisfies VendorPrices
