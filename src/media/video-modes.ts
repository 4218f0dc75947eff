import { isObject, type JsonObject } from '../domain/json-value.ts'
import type { When } from '../domain/price.ts'
import { isDefault } from '../domain/service.ts'
import { isDearerVideoField, plainName } from './dearer-fields.ts'

/** Vendor fields that request another mode of generation. Each is a price condition. */
const MODES = {
  mode: new Set(['mode', 'generationmode', 'qualitymode']),
  sound: new Set([
    ...['sound', 'audio', 'bgm', 'generateaudio', 'generatesound', 'enableaudio', 'enablesound'],
    ...['enablebgm', 'withaudio', 'withsound', 'includeaudio', 'hasaudio', 'addaudio'],
  ]),
} as const satisfies Partial<Record<keyof When, ReadonlySet<string>>>
type Mode = keyof typeof MODES
const NAMES = Object.keys(MODES) as Mode[]

const modeOf = (name: string): Mode | undefined => NAMES.find(mode => MODES[mode].has(plainName(name)))

const ON: readonly unknown[] = [true, 1, '1', 'true', 'yes']
const OFF: readonly unknown[] = [false, 0, '0', 'false', 'no', '', null]

/** The requested mode as text; empty for any other value, which no price names. */
function modeValue(value: unknown): string {
  const word = typeof value === 'string' ? value.toLowerCase().trim() : value
  if (ON.includes(word)) return 'on'
  if (OFF.includes(word)) return 'off'
  return typeof word === 'string' || typeof word === 'number' ? String(word) : ''
}

const isDefaultMode = (mode: Mode, word: string): boolean => word === 'off' || isDefault(mode, word)

/** The requested modes other than the defaults, at any depth; of several values the first. */
export function modesIn(fields: unknown): Pick<When, Mode> {
  const modes: { [mode in Mode]?: string } = {}
  function look(value: unknown): void {
    if (typeof value !== 'object' || value === null) return
    for (const [name, each] of Object.entries(value)) {
      const mode = Array.isArray(value) ? undefined : modeOf(name)
      if (mode === undefined) look(each)
      else if (!isDefaultMode(mode, modeValue(each))) modes[mode] ??= modeValue(each)
    }
  }
  look(fields)
  return modes
}

/** The vendor fields that are sent, and the names of those that are left out. */
type SentFields = { readonly fields: JsonObject; readonly removed: readonly string[] }

/**
 * The vendor fields that may be sent. A mode is sent if the price names it (`granted`) or if it is the vendor's default
 * (`usual`). Other fields that may raise the cost are left out.
 */
export function pricedFields(own: JsonObject, granted: When, usual: When = {}): SentFields {
  const removed: string[] = []

  function isSent(name: string, value: unknown): boolean {
    const mode = modeOf(name)
    if (mode === undefined) return !isDearerVideoField(name)
    const word = modeValue(value)
    return isDefaultMode(mode, word) || word === granted[mode] || word === usual[mode]
  }

  function sentValue(value: unknown, path: string): unknown {
    if (Array.isArray(value)) return value.map((each, index) => sentValue(each, `${path}${index}.`))
    return isObject(value) ? sentObject(value, path) : value
  }

  function sentObject(value: JsonObject, path: string): JsonObject {
    const entries = Object.entries(value).filter(([name, each]) => {
      const isKept = isSent(name, each)
      if (!isKept) removed.push(`${path}${name}`)
      return isKept
    })
    return Object.fromEntries(entries.map(([name, each]) => [name, sentValue(each, `${path}${name}.`)]))
  }

  const fields = sentObject(own, '')
  return removed.length === 0 ? { fields: own, removed } : { fields, removed }
}
