import { runJobs } from '../../host/thread-jobs.ts'

/** Merging takes time quadratic in the length of a word, so longer words are split. */
const PIECE_LENGTH = 2_048

const table = import('gpt-tokenizer/encoding/o200k_base')
/** In a client's text, the vendor's special tokens are ordinary text. */
const options = { disallowedSpecial: new Set<string>() }

/** The table is large and a long text takes time, so both are kept off the main thread. */
async function countTokens(text: string): Promise<number> {
  const { countTokens: countPiece } = await table
  let tokens = 0
  let from = 0
  while (from < text.length) {
    const space = text.lastIndexOf(' ', from + PIECE_LENGTH)
    const cut = space > from ? space : from + PIECE_LENGTH
    const end = text.length - from <= PIECE_LENGTH ? text.length : cut
    tokens += countPiece(text.slice(from, end), options)
    from = end
  }
  return tokens
}

runJobs(countTokens)
