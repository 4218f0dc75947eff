import {
  anthropic,
  azure,
  bedrock,
  custom,
  deepseek,
  gemini,
  mistral,
  ollama,
  openai,
  openrouter,
  vertex,
} from './list.ts'
import type { Provider } from './provider.ts'

/** The providers that most gateways connect first, in the order in which a list of all offers them. */
const POPULAR: readonly Provider[] = [
  openai,
  anthropic,
  gemini,
  azure,
  bedrock,
  vertex,
  deepseek,
  openrouter,
  mistral,
  ollama,
  custom,
]

/** All providers: those in use first, then the popular ones, then the others by name. */
export function byUse(
  providers: readonly Provider[],
  channelsOf: (type: number) => number,
): readonly Provider[] {
  const rank = (provider: Provider) => {
    const at = POPULAR.indexOf(provider)
    return at < 0 ? POPULAR.length : at
  }
  return providers.toSorted(
    (one, other) =>
      channelsOf(other.type) - channelsOf(one.type) ||
      rank(one) - rank(other) ||
      one.name.localeCompare(other.name, 'en'),
  )
}
