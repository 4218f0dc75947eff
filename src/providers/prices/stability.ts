import { same, type VendorPrices } from './vendor-prices.ts'

export const stability = {
  owner: 'stability',
  models: {
    ...same({ image: 0.065 }, 'sd3', 'sd3-large', 'sd3.5-large'),
    ...same({ image: 0.04 }, 'sd3-large-turbo', 'sd3.5-large-turbo'),
    ...same({ image: 0.035 }, 'sd3-medium', 'sd3.5-medium'),
    'stable-image-core': { image: 0.03 },
    'stable-image-ultra': { image: 0.08 },
  },
} satisfies VendorPrices
