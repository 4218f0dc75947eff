import type { Provider, Unsigned, Values } from '../provider.ts'
import { jimengVideos, SUBMIT } from '../videos/jimeng.ts'
import { signVolcengine } from '../volcengine-sign.ts'

const SERVICE = { service: 'cv', region: 'cn-north-1' }

// The name of a model is its `req_key`. Every call is a POST to the root; the action is in the query, and code 10000 is
// success.
export const jimeng = {
  type: 51,
  name: 'Jimeng',
  baseUrl: 'https://visual.volcengineapi.com',
  exchange: {
    description: 'access and secret key, as a Volcengine signature',
    takes: () => true,
    sign,
  },
  videos: { native: SUBMIT },
  dialects: { videos: { native: jimengVideos } },
  keyHint: '<access key>|<secret key>',
} satisfies Provider

function sign(key: string, _values: Values, request: Unsigned) {
  const [accessKeyId = '', secretAccessKey = ''] = key.split('|').map(part => part.trim())
  return signVolcengine({ accessKeyId, secretAccessKey }, SERVICE, request)
}
