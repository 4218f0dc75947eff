import type { VendorPrices } from './vendor-prices.ts'

const unit_note = 'The vendor bills at least 10 seconds a request.'

export const groq = {
  owner: 'groq',
  models: {
    'whisper-large-v3': { per_minute: 0.00185, unit_note },
    'whisper-large-v3-turbo': { per_second: 0.00001111, unit_note },
    'canopylabs/orpheus-v1-english': { per_character: 0.000022 },
    'canopylabs/orpheus-arabic-saudi': { per_character: 0.00004 },
  },
} satisfies VendorPrices
