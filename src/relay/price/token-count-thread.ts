import { parentPort } from 'node:worker_threads'

/** A thread that counts tokens: the table is large and a long text takes its time, so neither is on the main thread. */
export type CountJob = { readonly id: number; readonly text: string }
export type CountDone = { readonly id: number; readonly tokens: number }

/** The merging of a word takes the square of its length, so that no word is longer than this. */
const PIECE = 2_048

const table = import('gpt-tokenizer/encoding/o200k_base')
/** Words that a vendor keeps for itself are words like others in somebody's text. */
const options = { disallowedSpecial: new Set<string>() }

async function count(text: string): Promise<number> {
  const { countTokens } = await table
  let tokens = 0
  let from = 0
  while (from < text.length) {
    const space = text.lastIndexOf(' ', from + PIECE)
    const end = text.length - from <= PIECE ? text.length : space > from ? space : from + PIECE
    tokens += countTokens(text.slice(from, end), options)
    from = end
  }
  return tokens
}

parentPort?.on('message', async ({ id, text }: CountJob) => {
  parentPort?.postMessage({ id, tokens: await count(text) } satisfies CountDone)
})
