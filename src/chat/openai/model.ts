import type { ChatRequest } from '../hub/hub.ts'
import { effortOf } from '../hub/reasoning.ts'
import type { Warnings } from '../hub/warnings.ts'

/** What depends on the generation of one of the vendor's own models and is told nowhere else (protocols 2.5 and 3). */
type Rule = {
  /** The words for effort that it takes; none where it does not think. */
  readonly efforts: readonly string[]
  /** Whether it is told how to choose its words: always, never, or only while it does not think. */
  readonly sampling: 'always' | 'idle' | 'never'
}

/** By the beginning of the name, the first that fits. Other names are other makers', who take who knows what. */
const RULES: readonly (readonly [RegExp, Rule])[] = [
  [/^(gpt-3|gpt-4|chatgpt-|gpt-5(\.\d)?-chat)/, { efforts: [], sampling: 'always' }],
  [/^o[134](-|$)/, { efforts: ['low', 'medium', 'high'], sampling: 'never' }],
  [/^gpt-5(-\d{4}|-mini|-nano|$)/, { efforts: ['minimal', 'low', 'medium', 'high'], sampling: 'never' }],
  [/^gpt-5\.1(-\d{4}|$)/, { efforts: ['none', 'low', 'medium', 'high'], sampling: 'idle' }],
  [
    /^gpt-5\.[2-5](-\d{4}|-mini|-nano|$)/,
    { efforts: ['none', 'low', 'medium', 'high', 'xhigh'], sampling: 'idle' },
  ],
]

const ruleOf = (model: string): Rule | undefined => RULES.find(([pattern]) => pattern.test(model))?.[1]

/** Whether it may be asked for thoughts at all; of a name that is not known, it may. */
export const canThink = (model: string): boolean => ruleOf(model)?.efforts.length !== 0

const ORDER = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max']
/** Every model that thinks takes this word; the stronger ones were added later. */
const STRONGEST_EVERYWHERE = 'high'

/** How much the model is asked to think, in a word that it takes. */
export function fitEffort({ reasoning, model }: ChatRequest, warnings: Warnings): string | undefined {
  const { effort, budget } = reasoning ?? {}
  const wish = effort ?? (budget === undefined ? undefined : commonEffort(budget))
  if (wish === undefined) return undefined
  const word = takenEffort(wish, ruleOf(model)?.efforts)
  if (word === undefined) {
    if (wish !== 'none') warnings.lost('reasoning', 'the model cannot think')
    return undefined
  }
  if (effort === undefined) {
    warnings.lost('reasoning.budget', `${budget} tokens are asked for as the effort ${word}`)
  } else if (word !== effort) {
    warnings.lost('reasoning_effort', `the model does not take ${effort} and is asked for ${word}`)
  }
  return word
}

function commonEffort(budget: number): string {
  const effort = effortOf(budget)
  return ORDER.indexOf(effort) > ORDER.indexOf(STRONGEST_EVERYWHERE) ? STRONGEST_EVERYWHERE : effort
}

/** The word itself, else the strongest weaker one, else the weakest. A word of nobody's is the vendor's to judge. */
function takenEffort(wish: string, taken: readonly string[] | undefined): string | undefined {
  if (taken === undefined || taken.includes(wish)) return wish
  if (taken.length > 0 && !ORDER.includes(wish)) return wish
  return taken.findLast(word => ORDER.indexOf(word) < ORDER.indexOf(wish)) ?? taken[0]
}

const SAMPLING = {
  temperature: 'temperature',
  topP: 'top_p',
  presencePenalty: 'presence_penalty',
  frequencyPenalty: 'frequency_penalty',
  logprobs: 'logprobs',
} as const satisfies Partial<Record<keyof ChatRequest, string>>

/** The vendor's own defaults, which every model takes. */
const DEFAULTS: Partial<Record<keyof ChatRequest, number>> = {
  temperature: 1,
  topP: 1,
  presencePenalty: 0,
  frequencyPenalty: 0,
}

/** The request without what a model that thinks refuses to be told. */
export function fitSampling(
  request: ChatRequest,
  effort: string | undefined,
  warnings: Warnings,
): ChatRequest {
  const rule = ruleOf(request.model)
  // Where thinking can be switched off it is off until it is asked for.
  const isIdle = effort === undefined || effort === 'none'
  if (rule === undefined || rule.sampling === 'always' || (rule.sampling === 'idle' && isIdle)) return request
  const { temperature, topP, presencePenalty, frequencyPenalty, logprobs, ...rest } = request
  for (const [field, name] of Object.entries(SAMPLING) as [keyof typeof SAMPLING, string][]) {
    const value = request[field]
    if (value !== undefined && value !== DEFAULTS[field])
      warnings.lost(name, 'is refused by a model that thinks and was left out')
  }
  if (rule.sampling === 'never' && rest.stop !== undefined && rest.stop.length > 0) {
    warnings.lost('stop', 'is refused by this model and was left out')
    const { stop, ...unstopped } = rest
    return unstopped
  }
  return rest
}

/** The most that the vendor's own models write, by the beginning of the name; more is refused. */
const MAX_OUTPUT: readonly (readonly [RegExp, number])[] = [
  [/^gpt-3\.5-turbo(-1106|-0125)?$/, 4_096],
  [/^(gpt-4-(turbo|vision|1106|0125)|gpt-4o-2024-05-13)/, 4_096],
  [/^gpt-4(-0613|-0314)?$/, 8_192],
  [/^(gpt-4o|chatgpt-4o|gpt-5(\.\d)?-chat)/, 16_384],
  [/^gpt-4\.1/, 32_768],
  [/^o[134](-|$)/, 100_000],
  [/^gpt-5/, 128_000],
]

const MAX_STOPS = 4

/** The request within what the model takes: clients of other vendors' models ask for as much as those write. */
export function fitLimits(request: ChatRequest, warnings: Warnings): ChatRequest {
  const { model, maxTokens, stop } = request
  const most = MAX_OUTPUT.find(([pattern]) => pattern.test(model))?.[1]
  const isTooLong = most !== undefined && maxTokens !== undefined && maxTokens > most
  const isTooMany = ruleOf(model) !== undefined && stop !== undefined && stop.length > MAX_STOPS
  if (isTooLong) warnings.lost('max_tokens', `was lowered to ${most}, the most that the model writes`)
  if (isTooMany) warnings.lost('stop', `only the first ${MAX_STOPS} sequences are sent`)
  if (!isTooLong && !isTooMany) return request
  return {
    ...request,
    ...(isTooLong && { maxTokens: most }),
    ...(isTooMany && { stop: stop.slice(0, MAX_STOPS) }),
  }
}
