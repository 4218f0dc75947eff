import { same, startingPicture, type VendorPrices, video } from './vendor-prices.ts'

export const minimax = {
  owner: 'minimax',
  models: {
    ...same({ per_character: 0.0001 }, 'speech-02-hd', 'speech-2.6-hd'),
    ...same({ per_character: 0.00006 }, 'speech-02-turbo', 'speech-2.6-turbo'),
    'MiniMax-H3': { ...video(0.08, { '2k': 0.13 }), ...startingPicture(0.04) },
    'MiniMax-H3-Max': { ...video(0.08, { '480p': 0.05 }), ...startingPicture(0.074) },
  },
} satisfies VendorPrices
