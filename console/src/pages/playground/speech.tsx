import { useEffect, useId, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { buttonClasses } from '../../look/button.tsx'
import { Field, TextArea, TextInput } from '../../look/field.tsx'
import { count } from '../../look/format.ts'
import { Download } from '../../look/icons.ts'
import { FormatField } from './format-field.tsx'
import { ModelField } from './model-field.tsx'
import { filledFields, numeric } from './parameters.ts'
import { useModel } from './use-model.ts'
import { Workbench } from './workbench.tsx'

const VOICES = ['alloy', 'echo', 'fable', 'onyx', 'nova', 'shimmer']
const FORMATS = ['mp3', 'opus', 'aac', 'flac', 'wav', 'pcm']
const MAX_CHARACTERS = 4_096

type Sound = { readonly blob: Blob; readonly format: string }

/** Plays generated audio. It exists only in this page. */
function Player({ sound: { blob, format } }: { readonly sound: Sound }) {
  const { t } = useTranslation()
  const [address, setAddress] = useState('')
  useEffect(() => {
    const objectUrl = URL.createObjectURL(blob)
    setAddress(objectUrl)
    return () => URL.revokeObjectURL(objectUrl)
  }, [blob])
  if (address === '') return null
  return (
    <div className="flex flex-col gap-2">
      {/* biome-ignore lint/a11y/useMediaCaption: the words are in the form beside it */}
      <audio controls autoPlay src={address} className="w-full" aria-label={t('playground.audio_output')} />
      <p className="flex flex-wrap items-center gap-3 text-label text-ink-3">
        <a href={address} download={`speech.${format}`} className={buttonClasses('plain')}>
          <Download size={16} aria-hidden />
          {t('videos.download')}
        </a>
        {blob.type}
      </p>
    </div>
  )
}

/** Text to speech. */
export function Speech() {
  const { t } = useTranslation()
  const voices = useId()
  const [model, setModel] = useModel('audio-speech')
  const [values, setValues] = useState({ input: '', voice: 'alloy', response_format: '', speed: '' })
  const set = (changes: Partial<typeof values>) => setValues({ ...values, ...changes })
  const format = values.response_format || 'mp3'
  return (
    <Workbench
      path="/v1/audio/speech"
      body={filledFields({ model, ...values, speed: numeric(values.speed) })}
      saves={`speech.${format}`}
      isReady={model !== '' && values.input.trim() !== '' && values.input.length <= MAX_CHARACTERS}
      read={async response => ({ blob: await response.blob(), format })}
      show={sound => <Player sound={sound} />}
      empty={t('playground.speech_empty')}
      examples={[
        {
          words: t('playground.speech_example'),
          onTake: () => set({ input: t('playground.speech_example') }),
        },
      ]}
    >
      <ModelField kind="audio-speech" value={model} onChange={setModel} />
      <Field
        label={t('playground.speech_text')}
        help={`${count(values.input.length)} / ${count(MAX_CHARACTERS)}`}
      >
        {wiring => (
          <TextArea
            {...wiring}
            rows={5}
            maxLength={MAX_CHARACTERS}
            value={values.input}
            onChange={event => set({ input: event.target.value })}
          />
        )}
      </Field>
      <div className="grid grid-cols-2 gap-3">
        <Field label={t('playground.voice')} className="col-span-2">
          {wiring => (
            <TextInput
              {...wiring}
              list={voices}
              value={values.voice}
              onChange={event => set({ voice: event.target.value })}
            />
          )}
        </Field>
        <datalist id={voices}>
          {VOICES.map(voice => (
            <option key={voice} value={voice} />
          ))}
        </datalist>
        <FormatField
          formats={FORMATS}
          value={values.response_format}
          onChange={response_format => set({ response_format })}
        />
        <Field label={t('playground.speech_speed')}>
          {wiring => (
            <TextInput
              {...wiring}
              type="number"
              min={0.25}
              max={4}
              step={0.05}
              placeholder={t('playground.default')}
              value={values.speed}
              onChange={event => set({ speed: event.target.value })}
            />
          )}
        </Field>
      </div>
    </Workbench>
  )
}
