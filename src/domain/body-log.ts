/**
 * Which bodies of requests and answers are kept, weakest first (docs/operating/bodies.md: Which bodies are kept). Each
 * mode keeps everything that the modes before it keep.
 */
export const BODY_MODES = ['none', 'errors', 'sampled', 'all'] as const
export type BodyMode = (typeof BODY_MODES)[number]

const isMode = (text: string): text is BodyMode => (BODY_MODES as readonly string[]).includes(text)

/** A stored mode. An unknown one, written by a newer version, keeps nothing. */
export const bodyModeOf = (text: string): BodyMode => (isMode(text) ? text : 'none')

/** The mode of a request: the stronger one of its token and its user. */
export const strongerMode = (one: BodyMode, other: BodyMode): BodyMode =>
  BODY_MODES.indexOf(one) >= BODY_MODES.indexOf(other) ? one : other

/** At most this many bytes of a request, and of an answer, are kept. */
export const MAX_BODY_BYTES = 256 * 1024

/** One side of an exchange. `size` is its whole size; `kept` is the number of bytes that are stored. */
export type KeptSide = {
  readonly size: number
  readonly kept: number
  /** The content type. */
  readonly type: string
  readonly is_truncated: boolean
  readonly is_masked: boolean
}

/** What is stored with the bytes of a request and its answer. */
export type KeptExchange = {
  /** The path of the relay API. */
  readonly path: string
  readonly model: string
  /** The status that the client got. */
  readonly status: number
  readonly request: KeptSide & {
    /** The parts of a form instead of its bytes. */
    readonly parts?: readonly { readonly name: string; readonly is_file: boolean; readonly size: number }[]
  }
  readonly answer: KeptSide
}

/** The models of the setting `log_bodies_models`; undefined: all. */
export function modelsIn(setting: string): ReadonlySet<string> | undefined {
  const names = setting
    .split(',')
    .map(name => name.trim())
    .filter(name => name !== '')
  return names.length === 0 ? undefined : new Set(names)
}
