import { same, type VendorPrices, video } from './vendor-prices.ts'

/** One price for videos from text, from an image or from references. */
const eachWay = (model: string) => [`${model}-t2v`, `${model}-i2v`, `${model}-r2v`]

export const alibaba = {
  owner: 'alibaba',
  models: {
    ...same(video(0.220034, { '720p': 0.123769 }), ...eachWay('happyhorse-1.0')),
    ...same(video(0.165026, { '480p': 0.0618845, '720p': 0.123769 }), ...eachWay('happyhorse-1.1')),
    ...same(video(0.143353, { '720p': 0.086012 }), ...eachWay('wan2.7')),
    'wan3.0-video': video(0.165025, { '480p': 0.041256, '720p': 0.082513 }),
    'wan3.0-video-prime': video(0.254399, { '480p': 0.0636, '720p': 0.127199 }),
  },
} satisfies VendorPrices
