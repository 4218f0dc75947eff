import { bearer } from '../auth.ts'
import { namesAt } from '../model-lists.ts'
import type { Provider, Unsigned, Values } from '../provider.ts'
import { signAws } from '../sigv4.ts'

const FALLBACK_REGION = 'us-east-1'

// The signature uses the path encoded twice, the request has it encoded once. Streams are binary event frames; the usage
// comes after the end of the message. Newer models are called by the id of an inference profile (`us.anthropic…`), which the
// list of models does not contain. Claude is also available at /invoke, with `anthropic_version` in the body.
export const bedrock = {
  type: 33,
  name: 'AWS Bedrock',
  telemetryName: 'aws.bedrock',
  baseUrl: 'https://bedrock-runtime.{region}.amazonaws.com',
  auth: key => bearer(key.split('|')[0] ?? ''),
  exchange: { description: 'access and secret key, as a signature (AWS SigV4)', takes: isAccessKey, sign },
  chat: { bedrock: { whole: '/model/{model}/converse', streamed: '/model/{model}/converse-stream' } },
  embeddings: { native: '/model/{model}/invoke' },
  rerank: { native: '/model/{model}/invoke' },
  images: { native: '/model/{model}/invoke' },
  models: {
    baseUrl: 'https://bedrock.{region}.amazonaws.com',
    path: '/foundation-models',
    names: namesAt('modelSummaries', 'modelId'),
  },
  fields: [
    {
      name: 'region',
      label: 'Region',
      help: 'For example eu-central-1. A region in the key takes precedence.',
      fallback: FALLBACK_REGION,
    },
  ],
  placeholders: key => {
    const region = key.split('|')[isAccessKey(key) ? 2 : 1]?.trim()
    return region ? { region } : {}
  },
  keyHint: '<access key>|<secret>|<region>, optionally |<session token>; or <API key>|<region>',
} satisfies Provider

/** Three parts or more, or a first part that looks like an access key id. */
function isAccessKey(key: string): boolean {
  return /^A[KS]IA[A-Z0-9]+\|/.test(key) || key.split('|').length > 2
}

function sign(key: string, { region = FALLBACK_REGION }: Values, request: Unsigned) {
  const [accessKeyId = '', secretAccessKey = '', , sessionToken] = key.split('|').map(part => part.trim())
  const credentials = { accessKeyId, secretAccessKey, ...(sessionToken && { sessionToken }) }
  return signAws(credentials, { service: 'bedrock', region }, request)
}
