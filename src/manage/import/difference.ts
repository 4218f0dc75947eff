import type { Digest } from '../../identity/credentials.ts'

/**
 * The fields of a row as an import last read them, as short digests: they may be secrets, and only equality matters.
 * A field that is changed in the source is changed here too, unless it was changed here.
 */
export type FieldDigests = Readonly<Record<string, string>>
type Field = string | number | null

const LENGTH = 16

export const digestFields = (fields: Readonly<Record<string, Field>>, digest: Digest): FieldDigests =>
  Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [
      name,
      digest(`import ${JSON.stringify(value)}`).slice(0, LENGTH),
    ]),
  )

export type FieldDifference<Name extends string> = {
  /** Fields to write. */
  readonly changed: readonly Name[]
  /** Fields that were changed in the source and here. */
  readonly conflicting: readonly Name[]
}

/** Compares the source, its last import, and the row here. */
export function compareFields<Name extends string>(
  last: FieldDigests,
  source: Readonly<Record<Name, Field>>,
  here: Readonly<Record<Name, Field>>,
  digest: Digest,
): FieldDifference<Name> {
  const read = digestFields(source, digest)
  const current = digestFields(here, digest)
  const names = (Object.keys(source) as Name[]).filter(
    name => last[name] !== undefined && last[name] !== read[name] && current[name] !== read[name],
  )
  return {
    changed: names.filter(name => current[name] === last[name]),
    conflicting: names.filter(name => current[name] !== last[name]),
  }
}

export type AmountDifference = {
  /** What is booked now. */
  readonly nanos: number
  /** What cannot be taken, because it was spent here. */
  readonly missing: number
}

type Sides<Name extends string, Last> = {
  readonly last: Last
  readonly source: Readonly<Record<Name, Field>>
  readonly here: Readonly<Record<Name, Field>>
}

/** What an import changes in a row: the difference of its quota, and the fields that changed in the source only. */
export function differenceOf<Name extends string, Last extends { readonly fields?: FieldDigests }>(
  { last, source, here }: Sides<Name, Last>,
  { nanos, missing }: AmountDifference,
  digest: Digest,
) {
  const { changed, conflicting } = compareFields(last.fields ?? {}, source, here, digest)
  return {
    last,
    changed,
    conflicting,
    change: Object.fromEntries(changed.map(name => [name, source[name]])),
    nanos,
    missing,
    isSame: changed.length === 0 && nanos === 0,
    isBooked: true,
  }
}

export const conflictMessage = (names: readonly string[]) =>
  `was changed here and there: ${names.join(', ')}; what is here stays`
