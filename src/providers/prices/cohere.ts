import { same, type VendorPrices } from './vendor-prices.ts'

export const cohere = {
  owner: 'cohere',
  models: {
    ...same(
      { per_search: 0.002 },
      'rerank-english-v2.0',
      'rerank-multilingual-v2.0',
      'rerank-english-v3.0',
      'rerank-multilingual-v3.0',
      'rerank-v3.5',
      'rerank-v4.0-fast',
    ),
    'rerank-v4.0-pro': { per_search: 0.0025 },
  },
} satisfies VendorPrices
