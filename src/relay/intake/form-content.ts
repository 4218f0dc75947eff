import type { StoredFile } from '../../wire/multipart.ts'

export type FormFile = StoredFile & { readonly field: string }

/** A multipart body: its fields in order, and its files. */
export type Form = {
  readonly fields: readonly (readonly [name: string, value: string])[]
  readonly files: readonly FormFile[]
  /** Deletes the files; they must not be read afterwards. */
  dispose(): void
}

/** Limits of a form, documented in docs/limits.md. */
export const MAX_FILES = 17
export const MAX_FIELDS = 64
export const MAX_FIELD_BYTES = 1_048_576
export const MAX_NAME_BYTES = 100
export const MAX_FILE_NAME = 255
/** The longest time between two chunks of a body. */
export const BODY_IDLE_MS = 60_000
