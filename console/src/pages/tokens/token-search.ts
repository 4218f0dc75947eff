/** As much of a token's value as the gateway tells, too. */
const HEAD = 7
const TAIL = 4
/** What is longer than this is more than anybody may see of it. */
const PART = 20

/** A pasted value without its middle: no whole one goes into an address. */
export const withoutMiddle = (text: string) =>
  /^sk-\S+$/.test(text) && text.length > PART ? `${text.slice(0, HEAD)}…${text.slice(-TAIL)}` : text

/** Tokens are looked for by a part of their name, or by what is told of their value. */
export function tokenQuery(text: string | undefined) {
  if (text === undefined || !/^sk-\S*$/.test(text)) return { keyword: text }
  const shortened = withoutMiddle(text)
  return { token: shortened.includes('…') ? shortened : `${shortened}…` }
}
