import { hintOf } from '../count.ts'
import { fieldIn, readForm } from '../form.ts'
import { isExpiring, type Job, type JobState, stateOf } from '../jobs.ts'
import { textOf } from '../json.ts'
import { ProviderError } from '../provider-error.ts'
import { steer } from '../steering.ts'
import { countTokens } from '../tokens.ts'
import type { Inquiry, Reply } from './format.ts'
import { decodeRequest, missing } from './openai-request.ts'

const STATES: Readonly<Record<JobState['status'], string>> = {
  queued: 'queued',
  running: 'in_progress',
  done: 'completed',
  failed: 'failed',
  odd: 'polishing',
}
const SIZES = /^\d+x\d+$/
const DAY_S = 86_400
/** Long enough to download the video on a busy machine. */
const EXPIRING_S = 6

/** The content of a video: bytes that depend on their position, so that ranges can be checked. */
function filmOf(job: Job): Buffer {
  const kilobytes = steer('words', {}, job.model) ?? 4
  const film = Buffer.alloc(kilobytes * 1_024)
  for (let at = 0; at < film.length; at += 4) film.writeUInt32BE(at, at)
  return film
}

function jobJson(job: Job, nowMs: number): string {
  const { status, progress, error } = stateOf(job, nowMs)
  const created = Math.floor(job.createdMs / 1000)
  const isDone = status === 'done'
  return JSON.stringify({
    id: job.id,
    object: 'video',
    model: job.model,
    status: STATES[status],
    progress: Math.round(progress * 100),
    created_at: created,
    completed_at: isDone ? Math.floor(nowMs / 1000) : null,
    expires_at: isDone ? created + (isExpiring(job) ? EXPIRING_S : DAY_S) : null,
    seconds: job.seconds,
    size: job.size,
    prompt: job.prompt,
    remixed_from_video_id: textOf(job.more.remixedFrom) ?? null,
    error: error ?? null,
  })
}

const ownerOf = ({ key }: Inquiry) => hintOf(key)

function fieldsOf({ body, bytes, headers }: Inquiry): (name: string) => string | undefined {
  if (body !== '') {
    const { request } = decodeRequest(body)
    return name => textOf(request[name])
  }
  const form = readForm(bytes, headers)
  return name => fieldIn(form, name)
}

function submit(
  inquiry: Inquiry,
  fields: Pick<Job, 'model' | 'prompt' | 'seconds' | 'size' | 'more'>,
): Reply {
  const { id, time, jobs } = inquiry
  const job = { ...fields, id: `video_${id}`, owner: ownerOf(inquiry), createdMs: time.getTime() }
  return {
    kind: 'whole',
    body: jobJson({ ...job, looks: 0 }, time.getTime()),
    tokens: 0,
    bill: {
      id: job.id,
      model: job.model,
      promptTokens: countTokens(job.prompt),
      units: { seconds: Number(job.seconds) },
    },
    take: () => jobs.take(job),
  }
}

export function submitVideo(inquiry: Inquiry): Reply {
  const field = fieldsOf(inquiry)
  const model = field('model')
  const prompt = field('prompt')
  if (!model) throw missing('model')
  if (!prompt) throw missing('prompt')
  const size = field('size') ?? '720x1280'
  if (!SIZES.test(size)) throw new ProviderError('bad_value', "'size' must be two sides.", 'size')
  return submit(inquiry, { model, prompt, seconds: field('seconds') ?? '4', size, more: {} })
}

export function remixVideo(inquiry: Inquiry): Reply {
  const { model, seconds, size, id } = existing(inquiry)
  const prompt = textOf((JSON.parse(inquiry.body) as Record<string, unknown>).prompt)
  if (!prompt) throw missing('prompt')
  return submit(inquiry, { model, prompt, seconds, size, more: { remixedFrom: id } })
}

function existing(inquiry: Inquiry): Job {
  const { params, jobs, time } = inquiry
  const job = jobs.find(params[0] ?? '', ownerOf(inquiry), time.getTime())
  if (!job) throw new ProviderError('unknown_path', `There is no video ${params[0]}.`)
  return job
}

export const showVideo = (inquiry: Inquiry): Reply => ({
  kind: 'free',
  body: jobJson(existing(inquiry), inquiry.time.getTime()),
})

export function listVideos(inquiry: Inquiry): Reply {
  const limit = Number(inquiry.query.get('limit') ?? 20)
  const listed = inquiry.jobs.list(ownerOf(inquiry)).slice(0, limit)
  const data = listed.map(job => JSON.parse(jobJson(job, inquiry.time.getTime())))
  return { kind: 'free', body: JSON.stringify({ object: 'list', data, has_more: false }) }
}

export function removeVideo(inquiry: Inquiry): Reply {
  const { id } = existing(inquiry)
  inquiry.jobs.remove(id)
  return { kind: 'free', body: JSON.stringify({ id, object: 'video.deleted', deleted: true }) }
}

export function showFilm(inquiry: Inquiry): Reply {
  const job = existing(inquiry)
  if (stateOf(job, inquiry.time.getTime()).status !== 'done')
    throw new ProviderError('bad_value', 'The video is not ready.', null)
  return fileReply(filmOf(job), inquiry)
}

/** A file, or the requested range of it. */
function fileReply(bytes: Buffer, { headers }: Pick<Inquiry, 'headers'>): Reply {
  const [, from, to] = /^bytes=(\d+)-(\d*)$/.exec(headers.range ?? '') ?? []
  const common = { 'content-type': 'video/mp4', 'accept-ranges': 'bytes' }
  if (from === undefined) return { kind: 'file', status: 200, headers: common, body: bytes }
  const start = Number(from)
  const end = Math.min(bytes.length - 1, to ? Number(to) : bytes.length - 1)
  if (start > end)
    return {
      kind: 'file',
      status: 416,
      headers: { 'content-range': `bytes */${bytes.length}` },
      body: Buffer.alloc(0),
    }
  return {
    kind: 'file',
    status: 206,
    headers: { ...common, 'content-range': `bytes ${start}-${end}/${bytes.length}` },
    body: bytes.subarray(start, end + 1),
  }
}
