import { same, type VendorPrices } from './vendor-prices.ts'

/** The vendor names a model and the field it is trained for: `nova-2` is `nova-2-general`. */
const trainedFor = (model: string, ...fields: readonly string[]) => [
  model,
  ...fields.map(field => `${model}-${field}`),
]

// Listed per minute: a sixtieth of it has no exact decimal.
export const deepgram = {
  owner: 'deepgram',
  models: {
    ...same({ per_minute: 0.0043 }, ...trainedFor('nova', 'general', 'phonecall')),
    ...same(
      { per_minute: 0.0043 },
      ...trainedFor('nova-2', 'general', 'meeting', 'phonecall', 'finance', 'conversationalai', 'voicemail'),
      ...trainedFor('nova-2', 'video', 'automotive', 'drivethru', 'atc'),
    ),
    ...same({ per_minute: 0.0043 }, ...trainedFor('nova-3', 'general')),
    'nova-3-medical': { per_minute: 0.0052 },
    ...same({ per_minute: 0.0145 }, ...trainedFor('enhanced', 'general', 'meeting', 'phonecall', 'finance')),
    ...same(
      { per_minute: 0.0125 },
      ...trainedFor('base', 'general', 'meeting', 'phonecall', 'finance', 'conversationalai', 'voicemail'),
      'base-video',
    ),
    ...same({ per_second: 0.0001 }, ...trainedFor('whisper', 'tiny', 'base', 'small', 'medium', 'large')),
  },
} satisfies VendorPrices
