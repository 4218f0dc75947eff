import { useSyncExternalStore } from 'react'

export const THEMES = ['system', 'light', 'dark'] as const
export const DENSITIES = ['compact', 'normal', 'roomy'] as const
export const LANGUAGES = ['en', 'zh-CN'] as const
export const MOTIONS = ['system', 'none'] as const
export const PAGE_SIZES = [20, 50, 100, 200] as const

/** One person's taste, kept in this browser. Nothing secret, nothing of the gateway's. */
export type Preferences = {
  readonly theme: (typeof THEMES)[number]
  readonly density: (typeof DENSITIES)[number]
  readonly language: (typeof LANGUAGES)[number]
  readonly motion: (typeof MOTIONS)[number]
  /** A name of the IANA list; null: the browser's own. */
  readonly timeZone: string | null
  readonly singleKeys: boolean
  readonly isRailFolded: boolean
  readonly pageSize: number
  /** The columns of a table that somebody has chosen, by the table's name. */
  readonly columns: Readonly<Record<string, readonly string[]>>
  /** Filters of the usage page under a name. */
  readonly usageViews: readonly SavedView[]
}

export type SavedView = { readonly name: string; readonly search: Readonly<Record<string, unknown>> }

const KEY = 'sluice.preferences'

const browserLanguage = (): Preferences['language'] =>
  navigator.languages.some(each => each.startsWith('zh')) && !navigator.language.startsWith('en')
    ? 'zh-CN'
    : 'en'

const DEFAULTS: Preferences = {
  theme: 'system',
  density: 'normal',
  language: browserLanguage(),
  motion: 'system',
  timeZone: null,
  singleKeys: true,
  isRailFolded: false,
  pageSize: 50,
  columns: {},
  usageViews: [],
}

function read(): Preferences {
  try {
    return { ...DEFAULTS, ...JSON.parse(localStorage.getItem(KEY) ?? '{}') }
  } catch {
    // Storage may be closed to us, or hold something else under our name.
    return DEFAULTS
  }
}

let current = read()
const listeners = new Set<() => void>()

/** The page wears theme and density as attributes, so that the style sheet alone decides. */
function applyToPage({ theme, density, motion, language }: Preferences): void {
  const root = document.documentElement
  if (theme === 'system') delete root.dataset.theme
  else root.dataset.theme = theme
  root.dataset.density = density
  root.dataset.motion = motion
  root.lang = language
}
applyToPage(current)

export function setPreferences(changes: Partial<Preferences>): void {
  current = { ...current, ...changes }
  applyToPage(current)
  try {
    localStorage.setItem(KEY, JSON.stringify(current))
  } catch {
    // It holds for this visit.
  }
  for (const listener of listeners) listener()
}

export const preferences = () => current
export const usePreferences = () =>
  useSyncExternalStore(listener => {
    listeners.add(listener)
    return () => void listeners.delete(listener)
  }, preferences)
