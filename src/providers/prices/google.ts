import { same, type VendorPrices, video } from './vendor-prices.ts'

export const google = {
  owner: 'google',
  models: {
    // Its tokens are free; the pictures are not.
    'gemini-2.0-flash-exp-image-generation': { image: 0.039 },
    'gemini-nano-banana-2.1': { input: 1.5, output: 7.5, image_output: 30 },
    'nano-banana-pro-preview': { input: 2, output: 12, image_output: 120 },
    'imagen-3.0-generate-001': { image: 0.04 },
    'imagen-3.0-fast-generate-001': { image: 0.02 },

    'gemini-3.1-flash-tts-preview': { input: 1, output: 20 },
    'gemini-3.8-flash-tts': { input: 0.5, cached_input: 0.125, output: 9 },
    'gemini-3.8-flash-lite-tts': { input: 0.5, cached_input: 0.125, output: 6 },
    'gemini-3.5-transcribe': { input: 2, output: 12 },
    'gemini-3.5-transcribe-live': { input: 3.5, output: 21 },

    ...same(video(0.4, { '4k': 0.6 }), 'veo-3.1-generate-001', 'veo-3.1-generate-preview'),
    ...same(
      video(0.1, { '1080p': 0.12, '4k': 0.3 }),
      'veo-3.1-fast-generate-001',
      'veo-3.1-fast-generate-preview',
    ),
    'veo-3.1-lite-generate-preview': video(0.05, { '1080p': 0.08 }),
  },
} satisfies VendorPrices
