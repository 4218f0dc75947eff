import type OpenAI from 'openai'
import type { EngineName } from './gateway.ts'
import { openMedia } from './media.ts'
import { until } from './process.ts'

/** Short, for tests that only wait for an interval to end. */
const BRISK = { SLUICE_VIDEO_DOUBT_S: '6' }

/** The parts of sample requests. */
export const PICTURE = 'https://img.example/a.png'
export const INLINE_PICTURE = 'iVBORw0KGgoAAAAN'
export const WIDE = { width: 1280, height: 720 }

type Job = { readonly id: string; readonly prompt: string; readonly looks: number }

/** A gateway with the simulator, for jobs that take time. */
export async function openVideos(engine: EngineName, env: Readonly<Record<string, string>> = {}) {
  const media = await openMedia(engine, { ...BRISK, ...env })
  let modelCount = 0
  return {
    ...media,
    /** A separate model that these simulated models serve, a channel for each, in this order. */
    async serveVideos(
      sentModels: readonly string[],
      price: Readonly<Record<string, unknown>> = { per_call: 0.5 },
    ) {
      const model = `videos-${++modelCount}`
      for (const [index, name] of sentModels.entries())
        await media.addChannel({
          name: `${model}-${index}`,
          models: [model],
          model_mapping: { [model]: name },
          priority: 100 - index,
        })
      await media.must(media.gateway.api('POST', '/api/price/', { model, ...price }))
      return { model }
    },
    /** A token of a new user. */
    async openAsSomebody() {
      const { accessToken } = await media.gateway.createUser({ quota: 5_000_000 })
      const { id, key } = await media.newToken({ unlimited_quota: true }, accessToken)
      return { id, key, accessToken, sdk: media.sdkFor(key) }
    },
    /** A client that requests videos of this model, with these fields beside the prompt. */
    async openFor(model: string) {
      const { id, key, sdk } = await media.open({ unlimited_quota: true })
      const submit = (
        ask: Readonly<Record<string, unknown>> = {},
        headers: Readonly<Record<string, string>> = {},
      ) => media.api('POST', '/v1/videos', { model, prompt: 'p', ...ask }, { token: key, headers })
      return { id, sdk, submit }
    },
    untilEnded: (sdk: OpenAI, id: string) =>
      until(`the end of ${id}`, async () => {
        const video = await sdk.videos.retrieve(id)
        return video.status === 'completed' || video.status === 'failed' ? video : undefined
      }),
    /** The jobs with this prompt that the simulator has accepted. */
    async jobsOf(prompt: string): Promise<Job[]> {
      const { jobs } = (await (await fetch(`${media.upstream}/sim/videos`)).json()) as { jobs: Job[] }
      return jobs.filter(job => job.prompt === prompt)
    },
  }
}

export type VideoRelay = Awaited<ReturnType<typeof openVideos>>
