/** A typed number; undefined when the field is empty. */
export const numeric = (text: string): number | undefined => (text.trim() === '' ? undefined : Number(text))

/** The fields that have a value. */
export const filledFields = <Fields extends Readonly<Record<string, unknown>>>(fields: Fields) =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined && value !== ''))

/** A JSON object as text; undefined when invalid. */
export function readFields(text: string): Readonly<Record<string, unknown>> | undefined {
  if (text.trim() === '') return {}
  try {
    const read: unknown = JSON.parse(text)
    return typeof read === 'object' && read !== null && !Array.isArray(read) ? { ...read } : undefined
  } catch {
    return undefined
  }
}
