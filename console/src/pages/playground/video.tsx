import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { useCall } from '../../api/query.ts'
import { Field, TextArea, TextInput } from '../../look/field.tsx'
import { Part } from '../../look/states.tsx'
import { VideoResults } from '../videos/video-player.tsx'
import { hasEnded, Progress, VideoFault, VideoState } from '../videos/video-state.tsx'
import { ModelField } from './model-field.tsx'
import { filledFields, numeric } from './parameters.ts'
import { useModel } from './use-model.ts'
import { Workbench } from './workbench.tsx'

const LOOK_MS = 2_000
const FIELDS = ['seconds', 'size', 'fps', 'seed', 'n'] as const

/** A video job from submission to playback, without leaving the page. */
function Job({ id }: { readonly id: string }) {
  const { t } = useTranslation()
  const result = useCall(
    'getVideo',
    { params: { id } },
    { refetchMs: video => (hasEnded(video) ? false : LOOK_MS) },
  )
  const video = result.data
  return (
    <Part result={result}>
      {video ? (
        <>
          <p className="flex flex-wrap items-center gap-x-4 gap-y-2">
            <VideoState video={video} />
            {hasEnded(video) ? null : <Progress video={video} />}
          </p>
          <VideoFault video={video} />
          {video.status === 'completed' ? <VideoResults video={video} /> : null}
        </>
      ) : null}
      <Link to="/videos/$id" params={{ id }}>
        {t('playground.open_job')}
      </Link>
    </Part>
  )
}

/** Video generation from a prompt and an optional first frame. */
export function VideoTab() {
  const { t } = useTranslation()
  const [model, setModel] = useModel('openai-video')
  const [values, setValues] = useState({
    prompt: '',
    image: '',
    seconds: '8',
    size: '',
    fps: '',
    seed: '',
    n: '',
  })
  const set = (changes: Partial<typeof values>) => setValues({ ...values, ...changes })
  const { prompt, image, seconds, size, fps, seed, n } = values
  return (
    <Workbench
      path="/v1/videos"
      body={filledFields({
        model,
        prompt,
        image,
        seconds,
        size,
        fps: numeric(fps),
        seed: numeric(seed),
        n: numeric(n),
      })}
      isReady={model !== '' && prompt.trim() !== ''}
      read={response => response.json() as Promise<{ id: string }>}
      show={({ id }) => <Job id={id} />}
      empty={t('playground.video_empty')}
      examples={[
        {
          words: t('playground.video_example'),
          onTake: () => set({ prompt: t('playground.video_example') }),
        },
      ]}
    >
      <ModelField kind="openai-video" value={model} onChange={setModel} />
      <p className="text-label text-ink-3">{t('playground.video_paid')}</p>
      <Field label={t('playground.prompt')}>
        {wiring => (
          <TextArea
            {...wiring}
            rows={4}
            value={prompt}
            onChange={event => set({ prompt: event.target.value })}
          />
        )}
      </Field>
      <Field label={t('playground.image')} help={t('playground.image_help')}>
        {wiring => (
          <TextInput {...wiring} value={image} onChange={event => set({ image: event.target.value })} />
        )}
      </Field>
      <div className="grid grid-cols-2 gap-3 sm:grid-cols-3">
        {FIELDS.map(name => (
          <Field key={name} label={t(`playground.${name}`)}>
            {wiring => (
              <TextInput
                {...wiring}
                placeholder={t('playground.default')}
                value={values[name]}
                inputMode={name === 'size' ? 'text' : 'numeric'}
                onChange={event => set({ [name]: event.target.value })}
              />
            )}
          </Field>
        ))}
      </div>
    </Workbench>
  )
}
