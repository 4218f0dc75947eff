import { chat, completions, embeddings } from './openai.ts'
import type { OperationSpec } from './operation.ts'

export const SPECS: readonly OperationSpec[] = [chat, completions, embeddings]

/** What `/v1` takes, by path. */
export const OPERATIONS: Readonly<Record<string, OperationSpec>> = {
  '/v1/chat/completions': chat,
  '/v1/completions': completions,
  '/v1/embeddings': embeddings,
}
