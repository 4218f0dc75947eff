import { AnswerError } from '../../media/dialect.ts'
import type { VideoAsk, VideoState } from '../../media/video.ts'
import { memberOf } from '../member.ts'

/** The value at a path such as `data.videos.0.url`. */
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

/** The job id in the response to a submission. */
export const idAt =
  (path: string) =>
  (answer: unknown): string => {
    const id = textAt(answer, path)
    if (id === undefined) throw new AnswerError('the response has no job id')
    return id
  }

export type States = Readonly<Record<string, VideoState['status']>>

/** An unknown status counts as processing, until the deadline of all jobs. */
export const statusOf = (states: States, vendorStatus: string | undefined): VideoState['status'] =>
  (vendorStatus !== undefined && Object.hasOwn(states, vendorStatus) ? states[vendorStatus] : undefined) ??
  'processing'

export const failedFor = (code: string | undefined, message: string | undefined): VideoState => ({
  status: 'failed',
  error: { code: code ?? 'video_failed', message: message ?? 'The provider could not create the video.' },
})

/** A completed job without a video has failed. */
export const completedWith = (state: Omit<VideoState, 'status'>): VideoState =>
  (state.results ?? []).length === 0
    ? failedFor('no_result', 'The provider finished without a video.')
    : { status: 'completed', ...state }

/** Metadata of the client overrides the translated fields, except the model and the fields in `ours`. */
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

/** For vendors that accept only image URLs. */
export const onlyAddresses = ({ stills }: VideoAsk) =>
  stills.some(({ kind }) => kind !== 'url')
    ? { path: 'image', message: 'must be a URL: this provider accepts no inline images' }
    : undefined

/** For vendors that accept only inline images; the gateway fetches none. */
export const onlyPictures = ({ stills }: VideoAsk) =>
  stills.some(({ kind }) => kind === 'url')
    ? { path: 'image', message: 'must be a base64 image: this provider accepts no URLs' }
    : undefined
