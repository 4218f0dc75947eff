/**
 * Models that write nothing but what they deliver: they have no reasoning that a vendor bills and keeps to itself. A name
 * that is not listed may have some.
 */
const PLAIN_MODELS = [
  /^gpt-3\.5-turbo/,
  /^gpt-4(?:$|-(?!search|audio|realtime))/,
  /^gpt-4o(?:-mini)?(?:-20\d\d-\d\d-\d\d)?$/,
  /^gpt-4\.1/,
  /^claude-3-(?:haiku|opus|sonnet)/,
  /^claude-3-5-/,
  /^gemini-1\.5-/,
  /^(?:meta-)?llama-3/i,
  /^command-r/,
] as const satisfies readonly RegExp[]

export const hasNoReasoning = (model: string): boolean => PLAIN_MODELS.some(name => name.test(model))
