import { z } from 'zod'
import { codePoints, hasControl, hasControlExceptLineBreaks } from '../../domain/text.ts'

/** Building blocks of the contract: texts, pages, lists of names. */

type TextOptions = { readonly min?: number; readonly max: number; readonly lines?: boolean }

/** Trimmed; control characters are refused; the length counts code points. */
export const text = ({ min = 0, max, lines = false }: TextOptions) =>
  z
    .string()
    .trim()
    .superRefine((value, context) => {
      const refuse = (message: string) => context.addIssue({ code: 'custom', message })
      // Counting stops early on absurd inputs: UTF-16 units are never fewer than code points.
      const length = value.length > max * 2 ? value.length : codePoints(value)
      if (length < min) refuse(min === 1 ? 'must not be empty' : `must have at least ${min} characters`)
      if (length > max) refuse(`must have at most ${max} characters`)
      if (!value.isWellFormed()) refuse('is not well-formed Unicode')
      if (lines ? hasControlExceptLineBreaks(value) : hasControl(value))
        refuse('must not contain control characters')
    })

/** Null means absent: clients send whole objects back, with null for unset fields. */
export const optional = <T extends z.ZodType>(schema: T) =>
  schema.nullish().transform(value => value ?? undefined)

const MAX_ID = Number.MAX_SAFE_INTEGER
export const id = z.int().min(1).max(MAX_ID)

/** A whole number in a query or path. */
const wholeText = z
  .string()
  .regex(/^-?\d{1,16}$/, 'must be a whole number')
  .transform(Number)
/** Empty means absent: existing clients send filters that were not filled in. */
export const queryNumber = z
  .string()
  .regex(/^(-?\d{1,16})?$/, 'must be a whole number')
  .transform(value => (value === '' ? undefined : Number(value)))
  .optional()
/** Case-insensitive: some languages write a boolean as `True`. */
export const queryFlag = z
  .string()
  .toLowerCase()
  .pipe(z.enum(['true', 'false', '1', '0', '']))
  .transform(value => value === 'true' || value === '1')
  .optional()
/** Existing clients send empty filters for "all". */
export const queryText = z
  .string()
  .max(256)
  .refine(value => value.isWellFormed() && !hasControl(value), 'must not contain control characters')
  .transform(value => (value.trim() === '' ? undefined : value.trim()))
  .optional()

export const idParams = z.object({ id: wholeText.pipe(id) })

const MAX_PAGE = 1_000_000_000
const MAX_PAGE_SIZE = 500
const DEFAULT_PAGE_SIZE = 10

const pagingFields = { p: queryNumber, page_size: queryNumber, ps: queryNumber, size: queryNumber }

const readPaging = <
  T extends {
    p?: number | undefined
    page_size?: number | undefined
    ps?: number | undefined
    size?: number | undefined
  },
>({
  p,
  page_size,
  ps,
  size,
  ...rest
}: T) => {
  const requestedSize = page_size || ps || size || DEFAULT_PAGE_SIZE
  return {
    ...rest,
    paging: {
      page: Math.min(Math.max(p ?? 1, 1), MAX_PAGE),
      pageSize: requestedSize < 1 ? DEFAULT_PAGE_SIZE : Math.min(requestedSize, MAX_PAGE_SIZE),
    },
  }
}

/** The query of a list: `p` from 1, `page_size` up to 500 (aliases `ps`, `size`), and the list's own filters. */
export const paged = <Shape extends z.ZodRawShape>(filters: Shape) =>
  z.object({ ...pagingFields, ...filters }).transform(readPaging as never) as unknown as z.ZodType<
    z.output<z.ZodObject<Shape>> & { paging: { page: number; pageSize: number } }
  >

/** The response of a list. */
export const pageOf = <T extends z.ZodType>(item: T) =>
  z.object({ page: z.int(), page_size: z.int(), total: z.int(), items: z.array(item) })

export const MAX_NAMES = 2_000
const MODEL_NAME_LENGTH = 255

export const modelName = text({ min: 1, max: MODEL_NAME_LENGTH })
/** A name contains no comma, because lists of names are also sent as one comma-separated text. */
const joinedNames = text({ max: MAX_NAMES * MODEL_NAME_LENGTH, lines: true })

/** A list of names: an array, or a comma-separated text. Trimmed, without empty and duplicate names, in order. */
export const nameList = z
  .union([z.array(joinedNames).max(MAX_NAMES), joinedNames], {
    error: 'must be an array of strings, or one comma-separated string',
  })
  .transform(value => [value].flat().flatMap(part => part.split(/[,\n\r]/)))
  .transform(names => [...new Set(names.map(name => name.trim()).filter(name => name !== ''))])
  .pipe(z.array(modelName).max(MAX_NAMES))

export const limits = z.object({
  rpm: z.int().min(1).max(1_000_000_000).nullish(),
  tpm: z.int().min(1).max(1_000_000_000_000).nullish(),
  concurrency: z.int().min(1).max(1_000_000).nullish(),
})
/** Absent limits are null. */
export const limitsView = z.object({
  rpm: z.int().nullable(),
  tpm: z.int().nullable(),
  concurrency: z.int().nullable(),
})

/** The only group. It is stored and returned, but affects neither routing nor prices. */
export const group = optional(text({ max: 64 }))
export const ids = z.object({ ids: z.array(id).min(1).max(1_000) })
