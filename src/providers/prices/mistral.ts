import { same, type VendorPrices } from './vendor-prices.ts'

export const mistral = {
  owner: 'mistral',
  models: {
    ...same({ per_character: 0.000016 }, 'voxtral-mini-tts-2603', 'voxtral-mini-tts-latest'),
    ...same({ per_second: 0.00005 }, 'voxtral-mini-2602', 'voxtral-mini-latest'),
    ...same(
      { per_second: 0.0001 },
      'voxtral-mini-realtime-2602',
      'voxtral-mini-realtime-latest',
      'voxtral-mini-transcribe-realtime-2602',
      'voxtral-mini-transcribe-realtime-latest',
    ),
    ...same({ input: 0 }, 'mistral-moderation-2603', 'mistral-moderation-latest'),
  },
} satisfies VendorPrices
