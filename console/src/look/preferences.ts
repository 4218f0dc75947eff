import { useSyncExternalStore } from 'react'

export const THEMES = ['system', 'light', 'dark'] as const
export const DENSITIES = ['compact', 'normal', 'roomy'] as const
export const LANGUAGES = ['en', 'zh-CN'] as const
export const MOTIONS = ['system', 'none'] as const
export const PAGE_SIZES = [20, 50, 100, 200] as const

/** Preferences of one user, stored in this browser. They contain no secrets. */
export type Preferences = {
  readonly theme: (typeof THEMES)[number]
  readonly density: (typeof DENSITIES)[number]
  readonly language: (typeof LANGUAGES)[number]
  readonly motion: (typeof MOTIONS)[number]
  /** An IANA time zone; null means the browser's. */
  readonly timeZone: string | null
  readonly singleKeys: boolean
  readonly isRailFolded: boolean
  readonly pageSize: number
  /** Chosen columns, by table. */
  readonly columns: Readonly<Record<string, readonly string[]>>
  /** The last model of the playground, by endpoint type. */
  readonly playgroundModels: Readonly<Record<string, string>>
  /** Saved filters of the usage page. */
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
  playgroundModels: {},
  usageViews: [],
}

function read(): Preferences {
  try {
    return { ...DEFAULTS, ...JSON.parse(localStorage.getItem(KEY) ?? '{}') }
  } catch {
    // Storage may be blocked, or hold invalid data under this key.
    return DEFAULTS
  }
}

let current = read()
const listeners = new Set<() => void>()

/** Sets theme, density, motion and language as attributes of the document. */
function applyToPage({ theme, density, motion, language }: Preferences): void {
  const root = document.documentElement
  if (theme === 'system') delete root.dataset.theme
  else root.dataset.theme = theme
  root.dataset.density = density
  root.dataset.motion = motion
  root.lang = language
}
applyToPage(current)

function replace(preferences: Preferences): void {
  current = preferences
  applyToPage(current)
  for (const listener of listeners) listener()
}

export function setPreferences(changes: Partial<Preferences>): void {
  const changed = { ...current, ...changes }
  try {
    localStorage.setItem(KEY, JSON.stringify(changed))
  } catch {
    // Without storage the change lasts until the page is closed.
  }
  replace(changed)
}

/** Calls the listener when another tab has stored preferences. */
export function onOtherTab(listener: (stored: Preferences) => void): void {
  addEventListener('storage', ({ key }) => {
    if (key === KEY) listener(read())
  })
}
// Without this, the next change in this tab would undo that of another tab. The language changes later, when its texts are loaded
// (texts/index.ts).
onOtherTab(stored => replace({ ...stored, language: current.language }))

export const preferences = () => current
export const usePreferences = () =>
  useSyncExternalStore(listener => {
    listeners.add(listener)
    return () => void listeners.delete(listener)
  }, preferences)
