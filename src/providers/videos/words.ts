import { AnswerError } from '../../media/dialect.ts'
import type { VideoAsk, VideoState } from '../../media/video.ts'
import { memberOf } from '../member.ts'

/** What lies at a path of names and places: `data.videos.0.url`. */
export const at = (value: unknown, path: string): unknown =>
  path.split('.').reduce((node: unknown, name) => memberOf(node, name), value)

export function textAt(value: unknown, path: string): string | undefined {
  const member = at(value, path)
  if (typeof member === 'number') return String(member)
  return typeof member === 'string' && member !== '' ? member : undefined
}

export function numberAt(value: unknown, path: string): number | undefined {
  const member = at(value, path)
  return typeof member === 'number' && Number.isFinite(member) ? member : undefined
}

export const listAt = (value: unknown, path: string): readonly unknown[] => {
  const member = at(value, path)
  return Array.isArray(member) ? member : []
}

export const urlsAt = (value: unknown, path: string, name: string) =>
  listAt(value, path).flatMap(each => {
    const url = textAt(each, name)
    return url === undefined ? [] : [{ url }]
  })

/** The job's name in the answer to a submission. */
export const idAt =
  (path: string) =>
  (answer: unknown): string => {
    const id = textAt(answer, path)
    if (id === undefined) throw new AnswerError('the answer names no job')
    return id
  }

export type States = Readonly<Record<string, VideoState['status']>>

/** A word that nobody knows counts as processing, until the deadline of all jobs. */
export const statusOf = (states: States, vendorStatus: string | undefined): VideoState['status'] =>
  (vendorStatus !== undefined && Object.hasOwn(states, vendorStatus) ? states[vendorStatus] : undefined) ??
  'processing'

export const failedFor = (code: string | undefined, message: string | undefined): VideoState => ({
  status: 'failed',
  error: { code: code ?? 'video_failed', message: message ?? 'the provider could not make the video' },
})

/** A job without a film is none. */
export const completedWith = (state: Omit<VideoState, 'status'>): VideoState =>
  (state.results ?? []).length === 0
    ? failedFor('no_result', 'the provider finished without a video')
    : { status: 'completed', ...state }

/** What a client says in the vendor's own words wins, but for the model and what else is `ours`. */
export const overlaid = (
  fields: Readonly<Record<string, unknown>>,
  { metadata: { model: _model, ...metadata } }: Pick<VideoAsk, 'metadata'>,
  ours: Readonly<Record<string, unknown>> = {},
): Record<string, unknown> =>
  Object.fromEntries(
    Object.entries({ ...fields, ...metadata, ...ours }).filter(
      ([, value]) => value !== undefined && value !== null,
    ),
  )

/** For vendors that fetch pictures themselves and take no other. */
export const onlyAddresses = ({ stills }: VideoAsk) =>
  stills.some(({ kind }) => kind !== 'url')
    ? { path: 'image', message: 'must be an address: this provider takes no pictures in the request' }
    : undefined

/** For vendors that take pictures in the request and no other; nobody here fetches one. */
export const onlyPictures = ({ stills }: VideoAsk) =>
  stills.some(({ kind }) => kind === 'url')
    ? { path: 'image', message: 'must be the picture itself, in base64: this provider takes no addresses' }
    : undefined
