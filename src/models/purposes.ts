import { compilePatterns } from './name-pattern.ts'

/** An operation other than chat that a model is made for. */
export type ModelPurpose = 'transcription' | 'rerank' | 'moderation' | 'embeddings' | 'speech' | 'image'

type PurposeRow = {
  readonly purpose: ModelPurpose
  readonly matches: readonly string[]
  /** A complete word of the name, such as `tts` in `gpt-4o-mini-tts`. */
  readonly word?: string
}

/** The purpose of a model, by words in its name. The first matching row wins. */
export const PURPOSES = [
  {
    purpose: 'transcription',
    matches: ['*whisper*', '*transcri*', 'nova-[0-9]*', 'nova-general*', 'nova-phonecall*', 'scribe*'],
  },
  { purpose: 'rerank', matches: ['*rerank*'] },
  { purpose: 'moderation', matches: ['*moderation*'] },
  { purpose: 'embeddings', matches: ['*embed*', '*m3e*', '*bge-*'] },
  { purpose: 'speech', word: 'tts', matches: ['*_tts*', 'eleven_*', 'aura*', 'speech-*'] },
  { purpose: 'image', word: 'image', matches: ['imagen*', '*dall-e*', '*seedream*', '*flux*'] },
] as const satisfies readonly PurposeRow[]

const compiled = PURPOSES.map((row: PurposeRow) => ({ ...row, isMatch: compilePatterns(row.matches) }))

/** Undefined: the name does not tell, and nearly all of these models are for chat. */
export function purposeOf(model: string): ModelPurpose | undefined {
  const words = model.toLowerCase().split(/\W+/)
  return compiled.find(({ word, isMatch }) => isMatch(model) || (word && words.includes(word)))?.purpose
}
