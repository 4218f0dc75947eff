import { same, type VendorPrices } from './vendor-prices.ts'

export const blackForestLabs = {
  owner: 'black-forest-labs',
  models: {
    'flux-dev': { image: 0.025 },
    'flux-pro-1.1-ultra': { image: 0.06 },
    'flux-kontext-max': { image: 0.08 },
    ...same({ image: 0.05 }, 'flux-pro', 'flux-pro-1.0-expand', 'flux-pro-1.0-fill'),
    ...same({ image: 0.04 }, 'flux-pro-1.1', 'flux-kontext-pro'),
  },
} satisfies VendorPrices
