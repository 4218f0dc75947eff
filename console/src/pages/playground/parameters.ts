/** A number that was typed; what was not typed is not sent. */
export const numeric = (text: string): number | undefined => (text.trim() === '' ? undefined : Number(text))

/** Without the fields that nobody has filled. */
export const filledFields = <Fields extends Readonly<Record<string, unknown>>>(fields: Fields) =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined && value !== ''))

/** Fields written as JSON; undefined where it is none. */
export function readFields(text: string): Readonly<Record<string, unknown>> | undefined {
  if (text.trim() === '') return {}
  try {
    const read: unknown = JSON.parse(text)
    return typeof read === 'object' && read !== null && !Array.isArray(read) ? { ...read } : undefined
  } catch {
    return undefined
  }
}
