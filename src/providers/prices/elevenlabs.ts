import { same, type VendorPrices } from './vendor-prices.ts'

export const elevenlabs = {
  owner: 'elevenlabs',
  models: {
    ...same({ per_character: 0.00018 }, 'eleven_multilingual_v2', 'eleven_v3'),
    ...same({ per_second: 0.0000611 }, 'scribe_v1', 'scribe_v1_experimental', 'scribe_v2'),
  },
} satisfies VendorPrices
