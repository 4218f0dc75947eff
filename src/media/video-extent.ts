import { spellingsOf } from '../requests/field-names.ts'

/** The seconds and videos that a vendor's own fields request: a price counts them under any name. */
export type VideoExtent = {
  readonly seconds?: number | undefined
  readonly videos?: number | undefined
  /** A field has another value than a positive number: a vendor may choose the length (-1), or read more than is read here. */
  readonly isOpen?: true | undefined
}

const namedAs = (...names: readonly string[]): ReadonlySet<string> => new Set(spellingsOf(names))

const LENGTHS = namedAs('duration', 'seconds', 'duration_seconds', 'video_length')
const FRAMES = namedAs('frames', 'num_frames', 'frame_num')
const COUNTS = namedAs('n', 'sample_count', 'num_videos', 'number_of_videos', 'num_outputs')
const EXTENTS: ReadonlySet<string> = new Set([...LENGTHS, ...FRAMES, ...COUNTS])
/** Names of size fields: `1280x720`, `1280*720`, `1280:720`. */
const SIZES = namedAs('size', 'video_size', 'image_size', 'resolution', 'ratio', 'aspect_ratio')
const RESOLUTIONS = namedAs('resolution', 'video_resolution')
const SIDES = /^(\d{3,5})[x*:](\d{3,5})$/i
const MAX_DEPTH = 8
/** The lowest default frame rate of any vendor: it yields the longest duration for a number of frames. */
const FEWEST_FPS = 16

/** `5`, `"5"` and `"5s"`. */
function numberOf(value: unknown): number | undefined {
  const [, digits] = typeof value === 'string' ? (/^(\d{1,9}(?:\.\d{1,9})?)s?$/.exec(value) ?? []) : []
  const number = digits === undefined ? value : Number(digits)
  return typeof number === 'number' && Number.isFinite(number) ? number : undefined
}

/** The maximum length and number anywhere in these fields. */
export function extentOf(fields: unknown, fps = FEWEST_FPS): VideoExtent {
  let seconds: number | undefined
  let videos: number | undefined
  let isOpen: true | undefined
  const longer = (candidate: number) => {
    seconds = Math.max(seconds ?? 0, candidate)
  }
  function look(value: unknown, depth: number): void {
    if (typeof value !== 'object' || value === null || depth > MAX_DEPTH) return
    for (const [name, each] of Object.entries(value)) {
      const number = numberOf(each)
      if (EXTENTS.has(name) && !(number === undefined ? isAbsentOrNested(each) : number > 0)) isOpen = true
      if (number === undefined) look(each, depth + 1)
      else if (LENGTHS.has(name)) longer(number)
      else if (FRAMES.has(name)) longer(Math.floor(number / fps))
      else if (COUNTS.has(name)) videos = Math.max(videos ?? 0, number)
    }
  }
  look(fields, 0)
  return { seconds, videos, isOpen }
}

const isAbsentOrNested = (value: unknown) => value === undefined || value === '' || typeof value === 'object'

/** The sizes and resolutions of a video that a price may depend on. An aspect ratio such as `16:9` costs nothing. */
type VideoLook = { readonly sizes: readonly string[]; readonly resolutions: readonly string[] }

const spelt = (resolution: string) => resolution.toLowerCase().replace(/^2160p$/, '4k')

/** All sizes and resolutions in these fields, each in one spelling. */
export function lookOf(fields: unknown): VideoLook {
  const sizes = new Set<string>()
  const resolutions = new Set<string>()
  function look(value: unknown, depth: number): void {
    if (typeof value !== 'object' || value === null || depth > MAX_DEPTH) return
    for (const [name, each] of Object.entries(value)) {
      const [, width, height] = (typeof each === 'string' && SIDES.exec(each)) || []
      if (SIZES.has(name) && width !== undefined) sizes.add(`${Number(width)}x${Number(height)}`)
      else if (!RESOLUTIONS.has(name)) look(each, depth + 1)
      else if (typeof each === 'string' && each !== '') resolutions.add(spelt(each))
      else if (typeof each === 'number') resolutions.add(spelt(`${each}p`))
    }
    const { width, height } = value as { width?: unknown; height?: unknown }
    const sides = [numberOf(width), numberOf(height)]
    if (!sides.includes(undefined)) sizes.add(sides.join('x'))
  }
  look(fields, 0)
  return { sizes: [...sizes], resolutions: [...resolutions] }
}
