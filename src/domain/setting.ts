import { codePoints, hasControl } from './text.ts'

/** What Root can set while the gateway runs (docs/reference/management-api.md: Runtime settings). */
type Setting<T extends string | number | boolean> = {
  readonly default: T
  readonly unit: string
  readonly help: string
  /** Whole numbers have bounds. */
  readonly range?: readonly [number, number]
}

export const SETTINGS = {
  allow_unpriced_models: {
    default: false,
    unit: '',
    help: 'Serve models that have no price, free of charge and marked `unpriced`; otherwise they are refused',
  },
  default_video_model: {
    default: '',
    unit: '',
    help: 'The model of a video job that names none; empty: such a job is refused',
  },
  default_moderation_model: {
    default: '',
    unit: '',
    help: 'The model of a moderation that names none; empty: the first served of omni-moderation-latest, text-moderation-latest, text-moderation-stable',
  },
  registration: {
    default: false,
    unit: '',
    help: 'Let anybody open an account with the role User and no quota',
  },
  attempts: {
    default: 5,
    unit: 'attempts',
    help: 'How many channels a request tries at most',
    range: [1, 50],
  },
  early_headers_ms: {
    default: 30_000,
    unit: 'ms',
    help: 'How long a stream waits for its first event before the 200 and a keep-alive go out; 0: for ever',
    range: [0, 600_000],
  },
  usage_retention_days: {
    default: 90,
    unit: 'days',
    help: 'How long usage rows are kept; 0: for ever. Ledger, rollups and audit always stay',
    range: [0, 36_500],
  },
} as const satisfies Record<string, Setting<string | number | boolean>>

export type SettingKey = keyof typeof SETTINGS
type Widened<T> = T extends boolean ? boolean : T extends number ? number : string
export type Settings = { readonly [key in SettingKey]: Widened<(typeof SETTINGS)[key]['default']> }

export const isSettingKey = (key: string): key is SettingKey => Object.hasOwn(SETTINGS, key)

/** The value in the setting's own type, or a sentence on why it is none. Texts are read too: the family sends them. */
export function readSetting(
  key: SettingKey,
  given: unknown,
): { value: string | number | boolean } | { fault: string } {
  const setting: Setting<string | number | boolean> = SETTINGS[key]
  if (typeof setting.default === 'boolean') {
    if (given === true || given === 'true') return { value: true }
    if (given === false || given === 'false') return { value: false }
    return { fault: 'must be true or false' }
  }
  if (typeof setting.default === 'number') {
    const [min, max] = setting.range ?? [0, Number.MAX_SAFE_INTEGER]
    const value = typeof given === 'string' && /^\d{1,16}$/.test(given) ? Number(given) : given
    if (typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max) return { value }
    return { fault: `must be a whole number from ${min} to ${max}` }
  }
  if (typeof given === 'string' && codePoints(given) <= 255 && given.isWellFormed() && !hasControl(given))
    return { value: given.trim() }
  return { fault: 'must be a text of at most 255 characters, without control characters' }
}
