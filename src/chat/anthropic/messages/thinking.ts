import type { JsonObject } from '../../../domain/json-value.ts'
import { claudeGeneration } from '../../../models/generation.ts'
import type { ChatRequest, Part } from '../../hub/hub.ts'
import { budgetOf, effortOf } from '../../hub/reasoning.ts'
import { nativeSignature } from '../../hub/signature.ts'
import type { Warnings } from '../../hub/warnings.ts'

/** The minimum budget that the vendor accepts. */
const MIN_BUDGET = 1_024

/** The effort for models without adaptive thinking, if the client requests adaptive thinking. */
const FREE_EFFORT = 'high'

/** Why the vendor would reject thinking for this request, for reasons that the client cannot know. */
function obstacleToThinking(
  { reasoning, messages, model, tools, toolChoice }: ChatRequest,
  home: string,
): string | undefined {
  if (tools !== undefined && toolChoice?.mode === 'required')
    return 'a forced tool call cannot be preceded by thinking'
  const { thinking } = claudeGeneration(model)
  const isAdaptive = thinking !== 'budget' && (reasoning?.isAdaptive || reasoning?.budget === undefined)
  if (isAdaptive || thinking === 'adaptiveOnly') return undefined
  const calls = messages.findLast(message => message.role === 'assistant')?.content ?? []
  const isInLoop = messages.at(-1)?.role === 'tool' && calls.some(part => part.type === 'toolCall')
  const isSigned = calls.some(part => isOwnThought(part, home))
  return isInLoop && !isSigned ? 'the request lacks the thinking blocks of the last tool call' : undefined
}

const isOwnThought = (part: Part, home: string): boolean =>
  part.type === 'reasoning' &&
  (nativeSignature(home, part.signature) ?? nativeSignature(home, part.encrypted)) !== undefined

/** `body` is the field `thinking`; `config` belongs in `output_config`. */
type Thinking = { readonly body?: JsonObject; readonly config?: JsonObject; readonly isOn: boolean }

/** `home`: the format whose reasoning signatures the host accepts. */
type Bounds = { readonly home: string; readonly maxTokens: number; readonly warnings: Warnings }

/** The thinking parameters for Claude on any host. */
export function encodeThinking(request: ChatRequest, { home, maxTokens, warnings }: Bounds): Thinking {
  const { reasoning, model } = request
  if (reasoning === undefined) return { isOn: false }
  const { effort, budget, isAdaptive, summary } = reasoning
  if (effort === 'none') return { body: { type: 'disabled' }, isOn: false }
  const obstacle = obstacleToThinking(request, home)
  if (obstacle !== undefined) {
    warnings.lost('reasoning', obstacle)
    return { isOn: false }
  }
  const display = summary === undefined ? {} : { display: summary === 'none' ? 'omitted' : 'summarized' }
  const config = effort === undefined ? {} : { effort: effort === 'minimal' ? 'low' : effort }
  const { thinking } = claudeGeneration(model)
  if (budget !== undefined && thinking === 'adaptiveOnly') {
    const effortName = effort ?? effortOf(budget)
    warnings.lost(
      'reasoning.budget',
      `the model accepts no budget: ${budget} tokens are sent as the effort ${effortName}`,
    )
    return { body: { type: 'adaptive', ...display }, config: { effort: effortName }, isOn: true }
  }
  if (budget !== undefined) {
    // If the client used this very form, the vendor decides whether it is valid.
    const own = effort !== undefined && thinking === 'adaptive' ? config : {}
    return {
      body: { type: 'enabled', budget_tokens: Math.max(budget, MIN_BUDGET), ...display },
      config: own,
      isOn: true,
    }
  }
  if (thinking !== 'budget') return { body: { type: 'adaptive', ...display }, config, isOn: true }
  const effortBudget = budgetOf(effort ?? (isAdaptive ? FREE_EFFORT : ''))
  if (effortBudget === undefined) return { isOn: false }
  // Thinking counts against `max_tokens`, which the hold covers, so the budget must fit.
  const room = Math.min(effortBudget, Math.floor(maxTokens / 2))
  if (room < MIN_BUDGET) {
    warnings.lost('reasoning_effort', 'max_tokens is too small for a thinking budget')
    return { isOn: false }
  }
  return { body: { type: 'enabled', budget_tokens: room }, isOn: true }
}
