import { bearer } from './auth.ts'
import type { Provider } from './provider.ts'

// Signing counts the path encoded twice, the wire carries it encoded once. Streams are binary event frames;
// the usage comes after the end of the message. Claude is also offered by /invoke, with `anthropic_version`
// in the body.
export const bedrock = {
  type: 33,
  name: 'AWS Bedrock',
  baseUrl: 'https://bedrock-runtime.{region}.amazonaws.com',
  auth: key => bearer(key.split('|')[0] ?? ''),
  exchange: { scheme: 'aws-sigv4', takes: isAccessKey },
  chat: { bedrock: { whole: '/model/{model}/converse', streamed: '/model/{model}/converse-stream' } },
  embeddings: { native: '/model/{model}/invoke' },
  rerank: { native: '/model/{model}/invoke' },
  images: { native: '/model/{model}/invoke' },
  fields: [
    {
      name: 'region',
      label: 'Region',
      help: 'Such as eu-central-1; one that the key names wins.',
      fallback: 'us-east-1',
    },
  ],
  placeholders: key => {
    const region = key.split('|')[isAccessKey(key) ? 2 : 1]?.trim()
    return region ? { region } : {}
  },
  keyHint: '<access key>|<secret>|<region>, or <API key>|<region>',
} satisfies Provider

function isAccessKey(key: string): boolean {
  return /^A[KS]IA[A-Z0-9]+\|/.test(key)
}
