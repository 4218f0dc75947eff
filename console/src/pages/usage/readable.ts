/** JSON is easier to read with line breaks. Other texts, such as events, stay as they are. */
export function readable(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), undefined, 2)
  } catch {
    // Not JSON, or truncated.
    return text
  }
}
