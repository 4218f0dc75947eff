import { accessSecretTokens } from '../access-secret-jwt.ts'
import { bearer } from '../auth.ts'
import { baseUrlField } from '../fields.ts'
import { memberOf } from '../member.ts'
import type { Provider } from '../provider.ts'
import { klingVideos } from '../videos/kling.ts'

// With an image the job goes to /v1/videos/image2video instead, and is polled where it was created, with /{id}. An image is
// a URL or base64 without a prefix. Code 0 means that the call succeeded, even if the task failed.
export const kling = {
  type: 50,
  name: 'Kling',
  baseUrl: 'https://api.klingai.com',
  auth: bearer,
  exchange: {
    description: 'access and secret key, as a short-lived JWT',
    takes: key => key.includes('|'),
    createTokens: accessSecretTokens,
  },
  images: { native: '/v1/images/generations' },
  videos: { native: '/v1/videos/text2video' },
  dialects: { videos: { native: klingVideos } },
  fields: [
    baseUrlField('Newer URLs: https://api-singapore.klingai.com, in China https://api-beijing.klingai.com'),
  ],
  isKeyError: (_, body) => {
    const code = memberOf(body, 'code')
    // 1000 to 1004: the key; 1100 to 1103: the account and its balance.
    return typeof code === 'number' && ((code >= 1000 && code <= 1004) || (code >= 1100 && code <= 1103))
  },
  keyHint: '<access key>|<secret key>, or the single key of a newer account',
} satisfies Provider
