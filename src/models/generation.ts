import {
  CLAUDE,
  type ClaudeGeneration,
  GEMINI,
  type GeminiGeneration,
  OLLAMA_THINKING_LEVELS,
  OPENAI,
  type OpenAiGeneration,
  OTHER_IN_GEMINI,
  OTHER_IN_MESSAGES,
  WITHOUT_HIDDEN_REASONING,
} from './generations.ts'
import { compilePatterns, createLookup, type Version } from './name-pattern.ts'

/** `claude-opus-4-6`, `claude-opus-4.7`, `claude-3-5-sonnet-20241022`, `us.anthropic.claude-sonnet-4@20250514` */
function claudeVersion(model: string): Version | undefined {
  const name = /claude[^/]*/i.exec(model)?.[0]
  const [major, minor] = name?.split(/[-@.]/).filter(piece => /^\d{1,2}$/.test(piece)) ?? []
  return major === undefined ? undefined : [Number(major), Number(minor ?? 0)]
}

/** `gemini-2.5-flash`, `gemini-3.1-pro-preview`, `gemini-live-2.5-flash` */
function geminiVersion(model: string): Version | undefined {
  const [, major, minor] = /gemini(?:-[a-z]+)*?-(\d+)(?:\.(\d+))?/i.exec(model) ?? []
  return major === undefined ? undefined : [Number(major), Number(minor ?? 0)]
}

const findOpenAi = createLookup<OpenAiGeneration>(OPENAI)
const findClaude = createLookup<ClaudeGeneration>(CLAUDE, claudeVersion)
const findGemini = createLookup<GeminiGeneration>(GEMINI, geminiVersion)

/** Undefined for models of other makers on hosts with OpenAI's formats. */
export const openAiGeneration = (model: string): OpenAiGeneration | undefined => findOpenAi(model)
export const claudeGeneration = (model: string): ClaudeGeneration => findClaude(model) ?? OTHER_IN_MESSAGES
export const geminiGeneration = (model: string): GeminiGeneration => findGemini(model) ?? OTHER_IN_GEMINI

export const hasNoHiddenReasoning = compilePatterns(WITHOUT_HIDDEN_REASONING)
export const takesOllamaLevels = compilePatterns(OLLAMA_THINKING_LEVELS)
