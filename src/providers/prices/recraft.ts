import type { VendorPrices } from './vendor-prices.ts'

export const recraft = {
  owner: 'recraft',
  models: {
    recraftv2: { image: 0.022 },
    recraftv3: { image: 0.04 },
  },
} satisfies VendorPrices
