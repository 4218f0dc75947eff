/** What of a vendor's own fields says how much is made: a price counts seconds and videos, whoever names them. */
export type VideoExtent = { readonly seconds?: number | undefined; readonly videos?: number | undefined }

const LENGTHS = new Set(['duration', 'seconds', 'durationSeconds', 'duration_seconds', 'video_length'])
const FRAMES = new Set(['frames', 'num_frames', 'numFrames', 'frame_num'])
const COUNTS = new Set([
  'n',
  'sampleCount',
  'sample_count',
  'num_videos',
  'number_of_videos',
  'numberOfVideos',
  'num_outputs',
])
const MAX_DEPTH = 8
/** The fewest frames a second that vendors make where nobody says; then a film of so many frames is at its longest. */
const FEWEST_FPS = 16

/** `5`, `"5"` and `"5s"`. */
function numberOf(value: unknown): number | undefined {
  const [, digits] = typeof value === 'string' ? (/^(\d{1,9}(?:\.\d{1,9})?)s?$/.exec(value) ?? []) : []
  const number = digits === undefined ? value : Number(digits)
  return typeof number === 'number' && Number.isFinite(number) ? number : undefined
}

/** The longest and the most that is named anywhere in these fields. */
export function extentOf(fields: unknown, fps = FEWEST_FPS): VideoExtent {
  let seconds: number | undefined
  let videos: number | undefined
  const longer = (found: number) => {
    seconds = Math.max(seconds ?? 0, found)
  }
  function look(value: unknown, depth: number): void {
    if (typeof value !== 'object' || value === null || depth > MAX_DEPTH) return
    for (const [name, each] of Object.entries(value)) {
      const number = numberOf(each)
      if (number === undefined) look(each, depth + 1)
      else if (LENGTHS.has(name)) longer(number)
      else if (FRAMES.has(name)) longer(Math.floor(number / fps))
      else if (COUNTS.has(name)) videos = Math.max(videos ?? 0, number)
    }
  }
  look(fields, 0)
  return { seconds, videos }
}
