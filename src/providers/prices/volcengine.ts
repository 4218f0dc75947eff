import { type VendorPrices, video } from './vendor-prices.ts'

export const volcengine = {
  owner: 'volcengine',
  models: {
    'doubao-seedance-2-0-260128': video(0.141942857, {
      '480p': 0.066003429,
      '1080p': 0.354085714,
      '4k': 0.722057143,
    }),
    'doubao-seedance-2-0-fast-260128': video(0.114171429, { '480p': 0.053089714 }),
    'doubao-seedance-2-0-mini-260615': video(0.070971429, { '480p': 0.033001714 }),
    'doubao-seedance-2-5-260628': video(0.216, { '480p': 0.096075, '1080p': 0.5346 }),
  },
} satisfies VendorPrices
