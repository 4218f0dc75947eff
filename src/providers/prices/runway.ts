import { type VendorPrices, video } from './vendor-prices.ts'

export const runway = {
  owner: 'runway',
  models: {
    gen4_image: { image: 0.05 },
    gen4_image_turbo: { image: 0.02 },

    aleph2: video(0.28),
    'gen4.5': video(0.12),
    gen4_turbo: video(0.05),
    gemini_omni_flash: video(0.1),
    hailuo3: video(0.1, { '1080p': 0.15 }),
    seedance2: video(0.36, { '1080p': 0.4, '4k': 1.5 }),
    seedance2_5: video(0.3, { '480p': 0.2, '1080p': 0.68 }),
    seedance2_fast: video(0.29),
    seedance2_mini: video(0.16),
    'veo3.1': video(0.4),
    'veo3.1_fast': video(0.15),
  },
} satisfies VendorPrices
