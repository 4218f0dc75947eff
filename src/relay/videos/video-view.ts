import { THOUSANDTHS } from '../../domain/video.ts'
import type { VideoFacts, VideoResult } from '../../media/video.ts'
import type { VideoRow } from '../../store/engine/schema.ts'

/** A result, with the id of the provider's job. */
export type StoredResult = VideoResult & { readonly job: string }

export const factsIn = (row: Pick<VideoRow, 'parameters'>): VideoFacts => JSON.parse(row.parameters)
export const resultsIn = (row: Pick<VideoRow, 'results'>): readonly StoredResult[] => JSON.parse(row.results)

/** The gateway's URL of a result; the provider's own URL stays secret. */
const contentOf = (base: string, id: string, index: number) =>
  `${base}/v1/videos/${id}/content${index === 0 ? '' : `?index=${index}`}`

/** A job as `/v1/videos` returns it (docs/reference/videos.md: Video job object). */
export function presentVideo(row: VideoRow, base: string) {
  const { prompt } = factsIn(row)
  const urls =
    row.status === 'completed' ? resultsIn(row).map((_result, index) => contentOf(base, row.id, index)) : []
  const [url] = urls
  return {
    id: row.id,
    object: 'video',
    model: row.model,
    status: row.status,
    progress: row.progress / THOUSANDTHS,
    created_at: row.created_time,
    completed_at: row.completed_time,
    expires_at: row.expires_time,
    seconds: row.seconds,
    size: row.size,
    prompt: prompt === '' ? null : prompt,
    remixed_from_video_id: row.remixed_from,
    ...(row.status === 'failed' && {
      error: {
        code: row.error_code ?? 'video_failed',
        message: row.error_message ?? 'The provider could not create the video.',
      },
    }),
    ...(url !== undefined && { url, metadata: { url, ...(urls.length > 1 && { urls }) } }),
  }
}

/** The same for `/v1/video/generations` (docs/reference/videos.md: Task envelope). */
export function presentTask(row: VideoRow, base: string) {
  const { url, status, progress, error } = { url: '', error: undefined, ...presentVideo(row, base) }
  return {
    code: 'success',
    message: '',
    data: { task_id: row.id, status, progress, url, ...(error && { error }) },
  }
}
