import { same, type VendorPrices } from './vendor-prices.ts'

export const voyage = {
  owner: 'voyage',
  models: {
    ...same({ input: 0.05 }, 'rerank-1', 'rerank-2', 'rerank-2.5', 'rerank-3'),
    ...same({ input: 0.02 }, 'rerank-lite-1', 'rerank-2-lite', 'rerank-2.5-lite', 'rerank-3-lite'),
  },
} satisfies VendorPrices
