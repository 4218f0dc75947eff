import { describeCharges, describePairs, type Pair } from '../support/format-pairs.ts'
import { oneEngine } from '../support/gateway.ts'

/**
 * Each client with the provider family of its own format and with one other, so that each family serves one client. The laws
 * (test/chat/laws.test.ts) check the translation between all of them; test/system/chat/relay-formats.test.ts runs all pairs.
 */
const PAIRS: readonly Pair[] = [
  ['openai-chat', 'openai-chat'],
  ['openai-chat', 'cohere'],
  ['anthropic', 'anthropic'],
  ['anthropic', 'ollama'],
  ['responses', 'responses'],
  ['responses', 'bedrock'],
  ['gemini', 'gemini'],
  ['gemini', 'mistral'],
]

for (const engine of oneEngine('sqlite')) describeCharges(engine, PAIRS)
describePairs(PAIRS)
