/** The visible head of a masked key. */
const HEAD = 7
const TAIL = 4
/** Longer text may be a full key. */
const PART = 20

/** Masks a pasted key, so that a full key is never part of a URL. */
export const withoutMiddle = (text: string) =>
  /^sk-\S+$/.test(text) && text.length > PART ? `${text.slice(0, HEAD)}…${text.slice(-TAIL)}` : text

/** Searches tokens by name, or by the visible parts of the key. */
export function tokenQuery(text: string | undefined) {
  if (text === undefined || !/^sk-\S*$/.test(text)) return { keyword: text }
  const shortened = withoutMiddle(text)
  return { token: shortened.includes('…') ? shortened : `${shortened}…` }
}
