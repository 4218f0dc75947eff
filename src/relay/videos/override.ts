import type { Submission } from '../../media/video.ts'
import { extentOf, type VideoExtent } from '../../media/video-extent.ts'
import { isEmpty } from '../../override/override.ts'
import type { PlanStep } from '../../routing/plan.ts'
import type { FormPart } from '../../wire/multipart.ts'
import type { RelayChannel } from '../catalog/catalog.ts'
import type { RelayRequest } from '../request.ts'
import { type AttemptFailure, overrideFailure } from '../upstream/failure.ts'
import { encodeOutgoing } from '../upstream/outgoing.ts'

type Document = Readonly<Record<string, unknown>>

const isText = (part: FormPart): part is Extract<FormPart, { value: string }> => 'value' in part

/** For a form: its text fields whose names occur once. */
function documentOf({ json, parts = [] }: Submission): Document {
  if (json) return json
  const texts = parts.filter(isText)
  const isAlone = ({ name }: FormPart) => parts.filter(part => part.name === name).length === 1
  return Object.fromEntries(texts.filter(isAlone).map(({ name, value }) => [name, value]))
}

const textOf = (value: unknown) => (typeof value === 'object' ? JSON.stringify(value) : String(value))

/** Replaces the document of a submission. Files, and form fields whose names occur more than once, are unchanged. */
function withDocument(submission: Submission, before: Document, after: Document): Submission {
  if (submission.json) return { ...submission, json: after }
  const files = (submission.parts ?? []).filter(({ name }) => !Object.hasOwn(before, name))
  const values = Object.entries(after).filter(([, value]) => value !== undefined && value !== null)
  return {
    ...submission,
    parts: [...values.map(([name, value]) => ({ name, value: textOf(value) })), ...files],
  }
}

/** Whether an operation of the override requests more than the hold covers. */
const exceeds = (actual: VideoExtent, { seconds = Number.POSITIVE_INFINITY, videos = 1 }: VideoExtent) =>
  (actual.videos ?? 0) > videos || (actual.seconds ?? 0) > seconds

/** Applies a channel's overrides to a submission in the vendor's format. */
export function overrideSubmission(
  submission: Submission,
  videoRequest: RelayRequest & { readonly ask: { readonly fps: number | undefined } },
  { channel, key, sentModel }: PlanStep<RelayChannel>,
  paid: VideoExtent,
): Submission | AttemptFailure {
  if (isEmpty(channel.override) && channel.headerOverride.templates.length === 0) return submission
  const { deps, spec, work, response, ask } = videoRequest
  const plain = documentOf(submission)
  const body = Buffer.from(JSON.stringify({ ...plain, ...channel.override.members }))
  const ready = encodeOutgoing(
    { channel, key, requestedModel: work.model, sentModel, client: response.req.headers },
    { spec, readContext: deps.readContext },
    submission.headers ?? {},
    { body },
  )
  if ('isRetryable' in ready) return ready
  const { outgoing, headers } = ready
  const document = JSON.parse(outgoing.body.toString('utf8')) as Document
  const seconds = extentOf(plain, ask.fps).seconds ?? 0
  // A vendor's frame count may already express more seconds than those in the price.
  const most = { ...paid, seconds: paid.seconds === undefined ? undefined : Math.max(paid.seconds, seconds) }
  if (exceeds(extentOf(document, ask.fps), most))
    return overrideFailure(
      channel,
      'the override makes the video longer or larger than the amount held for it',
    )
  return { ...withDocument(submission, plain, document), headers }
}
