import type { VendorPrices } from './vendor-prices.ts'

export const jina = {
  owner: 'jina',
  models: {
    // A ranking puts out no tokens, so there is no price for them.
    'jina-reranker-v2-base-multilingual': { input: 0.05 },
  },
} satisfies VendorPrices
