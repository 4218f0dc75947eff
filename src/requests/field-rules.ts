import type { FieldFault } from '../domain/errors.ts'
import type { JsonObject } from '../domain/json-value.ts'
import { type RepeatedName, repeatedName } from '../wire/json-repeat.ts'
import {
  DECISIVE_FOLDS,
  FORBIDDEN_IN_VIDEO_WRAPPERS,
  FORBIDDEN_IN_WRAPPERS,
  foldName,
  KNOWN_NAMES,
  type KnownName,
  type Spelling,
} from './field-names.ts'
import type { RequestFault } from './request-fields.ts'

/** The naming rules of an operation's requests. `vendor`: every object contains fields of some vendor. */
export type NameRules = Spelling | 'vendor'

const forbiddenUnder = (rules: NameRules) =>
  rules === 'vendor' ? FORBIDDEN_IN_VIDEO_WRAPPERS : FORBIDDEN_IN_WRAPPERS

const spellingOf = (rules: NameRules): Spelling => (rules === 'vendor' ? 'either' : rules)

const TWICE = 'was sent twice: send it once'

const MAX_PATH = 200

/** Long names are the client's own. The error repeats the end of the path only, which identifies the member. */
const refusal = ({ path, message }: FieldFault): RequestFault => {
  const param = path.length > MAX_PATH ? `…${path.slice(-MAX_PATH)}` : path
  return { param, code: 'invalid_parameter', message: `${param} ${message}` }
}

const within = (step: string, fault: FieldFault | undefined): FieldFault | undefined =>
  fault && { ...fault, path: `${step}${fault.path.startsWith('[') ? '' : '.'}${fault.path}` }

const anotherSpelling = (name: string) => `is another spelling of ${name}: send ${name}`

/**
 * Checks names against the table and counts them. The state is reused, so one request is checked at a time,
 * synchronously.
 */
function createNameCheck(rules: NameRules) {
  const knownNames = KNOWN_NAMES[spellingOf(rules)]
  const forbidden = forbiddenUnder(rules)
  const isDeep = rules === 'vendor'
  let count = 0

  const isWalked = (about: KnownName | undefined, isList: boolean) =>
    isDeep || about?.isWalked === true || (about?.isWalked === 'list' && isList)

  function checkValue(value: object): FieldFault | undefined {
    if (!Array.isArray(value)) return checkObject(value as JsonObject)
    for (let index = 0; index < value.length; index++) {
      const each: unknown = value[index]
      if (typeof each !== 'object' || each === null) continue
      const fault = checkValue(each)
      if (fault) return within(`[${index}]`, fault)
    }
    return undefined
  }

  function checkObject(object: JsonObject): FieldFault | undefined {
    const names = Object.keys(object)
    count += names.length
    let unknownNames: string[] | undefined
    for (const name of names) {
      const about = knownNames.get(name)
      if (about === undefined) {
        unknownNames ??= []
        unknownNames.push(name)
      } else if (about.twin !== undefined && Object.hasOwn(object, about.twin))
        return { path: about.twin, message: `cannot be combined with ${name}: send one of them` }
      const value = object[name]
      if (typeof value !== 'object' || value === null) continue
      const fault = about?.isWrapper
        ? checkWrapper(value)
        : isWalked(about, Array.isArray(value))
          ? checkValue(value)
          : countNames(value)
      if (fault) return within(name, fault)
    }
    return unknownNames && checkUnknownNames(unknownNames)
  }

  /** An unknown name must not be readable as a known one, nor two of them as the same name. */
  function checkUnknownNames(names: readonly string[]): FieldFault | undefined {
    const folded = new Set<string>()
    for (const name of names) {
      const fold = foldName(name)
      const decisiveName = DECISIVE_FOLDS.get(fold)
      if (decisiveName !== undefined) return { path: name, message: anotherSpelling(decisiveName) }
      if (folded.has(fold)) return { path: name, message: 'was sent in two spellings: send one of them' }
      folded.add(fold)
    }
    return undefined
  }

  /** An object that a server merges into the body must not decide anything. */
  function checkWrapper(value: object): FieldFault | undefined {
    const names = Object.keys(value)
    count += names.length
    for (const name of names) {
      const decisiveName = forbidden.get(foldName(name))
      if (decisiveName !== undefined)
        return { path: name, message: `is not supported here: send ${decisiveName} at the top level` }
      const inner = (value as JsonObject)[name]
      if (typeof inner !== 'object' || inner === null) continue
      const fault = knownNames.get(name)?.isWrapper ? checkWrapper(inner) : countNames(inner)
      if (fault) return within(name, fault)
    }
    return undefined
  }

  function countNames(value: object): undefined {
    if (!Array.isArray(value)) count += Object.keys(value).length
    for (const each of Object.values(value)) if (typeof each === 'object' && each !== null) countNames(each)
  }

  return {
    /** The fault, or the number of names in the value. */
    check(value: JsonObject): FieldFault | number {
      count = 0
      return checkObject(value) ?? count
    },
    isWalked: (name: string, isList: boolean) => {
      const about = knownNames.get(name)
      return about?.isWrapper === true || isWalked(about, isList)
    },
  }
}

const CHECKS = {
  snake: createNameCheck('snake'),
  either: createNameCheck('either'),
  vendor: createNameCheck('vendor'),
} satisfies Readonly<Record<NameRules, unknown>>

/** A parsed JSON body. `names`: the number of names in its bytes (wire/json-skim.ts). */
type ReadBody = { readonly value: JsonObject; readonly names: number; readonly bytes: Buffer }

/** The fault of a body whose member names are ambiguous: one could be read as a decisive field, or occurs twice. */
export function nameFault({ value, names, bytes }: ReadBody, rules: NameRules): RequestFault | undefined {
  const { check, isWalked } = CHECKS[rules]
  const checked = check(value)
  if (typeof checked === 'object') return refusal(checked)
  // A parser keeps only one of two members with the same name, so the counts differ.
  if (checked === names) return undefined
  const repeated = repeatedName(bytes, isWalked)
  return repeated && repeatFault(repeated)
}

const repeatFault = ({ path, isTopLevel }: RepeatedName): RequestFault =>
  isTopLevel
    ? {
        param: null,
        code: 'invalid_json',
        message: `The body contains "${path.slice(0, 100)}" twice. Send it once.`,
      }
    : refusal({ path, message: TWICE })

/** Brackets and dots address a member of an object: `metadata[model]`. */
const STEPS = /[[\].]+/

/** The object that a form may write member by member: `metadata[style]`. */
const WRITTEN_AS_MEMBERS = 'metadata'

/** An entry of a list: `image[]`, `image[0]`. */
const LISTED = /\[\d*\]$/

const isPlace = (step: string) => /^\d+$/.test(step)

/** The same for the field names of a form. A field that decides nothing may be repeated: it is a list. */
export function formNameFault(names: readonly string[], rules: NameRules): RequestFault | undefined {
  const knownNames = KNOWN_NAMES[spellingOf(rules)]
  const forbidden = forbiddenUnder(rules)
  const earlier = new Map<string, { readonly written: string; readonly isList: boolean }>()
  for (const name of names) {
    const steps = name.split(STEPS).filter((step, at) => at === 0 || (step !== '' && !isPlace(step)))
    const isMember = steps[0] === WRITTEN_AS_MEMBERS && steps.length === 2
    for (const [at, step] of steps.entries()) {
      const fold = foldName(step)
      const decisiveName = knownNames.has(step) ? undefined : DECISIVE_FOLDS.get(fold)
      if (decisiveName !== undefined) return refusal({ path: name, message: anotherSpelling(decisiveName) })
      if (at > 0 && !isMember && forbidden.has(fold))
        return refusal({ path: name, message: 'is not supported here: send it at the top level' })
    }
    const folded = steps.map(foldName).join('.')
    const field = { written: steps.join('.'), isList: LISTED.test(name) }
    const other = earlier.get(folded)
    if (other !== undefined && other.written !== field.written)
      return refusal({ path: name, message: 'was sent in two spellings: send one of them' })
    const isDecisive = DECISIVE_FOLDS.has(foldName(steps.at(-1) ?? ''))
    if (other !== undefined && isDecisive && !(other.isList && field.isList))
      return refusal({ path: name, message: TWICE })
    earlier.set(folded, field)
  }
  return undefined
}

/** The same for an object inside a JSON text field at `path`. */
export function textNameFault(text: string, value: JsonObject, path: string): FieldFault | undefined {
  const checked = CHECKS.vendor.check(value)
  if (typeof checked === 'object') return within(path, checked)
  const repeated = repeatedName(Buffer.from(text), () => true)
  return repeated && { path: `${path}.${repeated.path}`, message: TWICE }
}
