import { same, startingPicture, type VendorPrices, video } from './vendor-prices.ts'

export const xai = {
  owner: 'xai',
  models: {
    'grok-imagine-image': { image: 0.02 },
    ...same(
      { image: 0.05 },
      'grok-imagine-image-pro',
      'grok-imagine-image-quality',
      'grok-imagine-image-quality-latest',
    ),
    'grok-imagine-image-2.0': {
      image: 0.06,
      variants: [{ when: { quality: 'low', size: '1024x1024' }, image: 0.04 }],
    },

    ...same({ per_second: 0.00002778 }, 'grok-voice-transcribe-1.0', 'grok-voice-transcribe-2.0'),

    'grok-imagine-video': { ...video(0.05, { '720p': 0.07 }), ...startingPicture(0.002) },
    ...same(
      { ...video(0.08, { '720p': 0.14, '1080p': 0.25 }), ...startingPicture(0.01) },
      'grok-imagine-video-1.5',
      'grok-imagine-video-1.5-preview',
    ),
    'grok-imagine-video-1.5-lite': {
      ...video(0.02, { '720p': 0.03, '1080p': 0.14 }),
      ...startingPicture(0.01),
    },
  },
} satisfies VendorPrices
