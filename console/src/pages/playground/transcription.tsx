import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { CopyButton } from '../../look/copy.tsx'
import { Checkbox, Choice, Field, TextInput } from '../../look/field.tsx'
import { span } from '../../look/format.ts'
import { FormatField } from './format-field.tsx'
import { ModelField } from './model-field.tsx'
import { filledFields, numeric } from './parameters.ts'
import { useModel } from './use-model.ts'
import { Workbench } from './workbench.tsx'

type Segment = { readonly start: number; readonly end: number; readonly text: string }
type Transcript = {
  readonly text: string
  readonly language?: string
  readonly duration?: number
  readonly segments?: readonly Segment[]
}

const TASKS = ['transcriptions', 'translations'] as const
const FORMATS = ['json', 'text', 'srt', 'vtt', 'verbose_json']
const GRANULARITIES = ['segment', 'word'] as const
const MS_PER_S = 1_000

/** Reads the text of every response format. */
async function readTranscript(response: Response): Promise<Transcript> {
  const isJson = response.headers.get('content-type')?.includes('json')
  return isJson ? ((await response.json()) as Transcript) : { text: await response.text() }
}

function TranscriptView({
  transcript: { text, language, segments = [] },
}: {
  readonly transcript: Transcript
}) {
  const { t } = useTranslation()
  return (
    <>
      <p className="break-words whitespace-pre-wrap">{text}</p>
      {language ? (
        <p className="text-label text-ink-3">{t('playground.detected_language', { language })}</p>
      ) : null}
      {segments.length > 0 ? (
        <table className="w-full text-table">
          <tbody>
            {segments.map(segment => (
              <tr key={`${segment.start} ${segment.text}`} className="border-t border-line align-top">
                <th scope="row" className="py-1 pr-3 text-left font-normal whitespace-nowrap text-ink-3">
                  {span(segment.start * MS_PER_S)}
                </th>
                <td className="py-1">{segment.text}</td>
              </tr>
            ))}
          </tbody>
        </table>
      ) : null}
      <span>
        <CopyButton text={text} />
      </span>
    </>
  )
}

/** Speech to text. */
export function Transcription() {
  const { t } = useTranslation()
  const [model, setModel] = useModel('audio-transcription')
  const [task, setTask] = useState<(typeof TASKS)[number]>('transcriptions')
  const [file, setFile] = useState<File>()
  const [values, setValues] = useState({ language: '', response_format: '', temperature: '' })
  const [granularities, setGranularities] = useState<readonly string[]>([])
  const set = (changes: Partial<typeof values>) => setValues({ ...values, ...changes })
  const isVerbose = values.response_format === 'verbose_json'
  const body = filledFields({
    model,
    response_format: values.response_format,
    temperature: numeric(values.temperature),
    language: task === 'transcriptions' ? values.language : undefined,
    timestamp_granularities: isVerbose && granularities.length > 0 ? granularities : undefined,
  })
  return (
    <Workbench
      path={`/v1/audio/${task}`}
      body={body}
      file={file}
      isReady={model !== '' && file !== undefined}
      read={readTranscript}
      show={transcript => <TranscriptView transcript={transcript} />}
      empty={t('playground.transcription_empty')}
    >
      <Field label={t('playground.task')}>
        {wiring => (
          <Choice
            {...wiring}
            value={task}
            onChange={event => setTask(event.target.value as (typeof TASKS)[number])}
          >
            {TASKS.map(name => (
              <option key={name} value={name}>
                {t(`playground.${name}`)}
              </option>
            ))}
          </Choice>
        )}
      </Field>
      <ModelField kind="audio-transcription" value={model} onChange={setModel} />
      <Field label={t('playground.file')} help={t('playground.file_help')}>
        {wiring => (
          <input
            {...wiring}
            type="file"
            accept="audio/*,video/*"
            onChange={event => setFile(event.target.files?.[0])}
            className="w-full min-w-0 rounded-control border border-edge p-1.5 text-table file:mr-3 file:h-7 file:rounded-control file:border-0 file:bg-sunken file:px-2 file:text-ink"
          />
        )}
      </Field>
      <div className="grid grid-cols-2 gap-3">
        {task === 'transcriptions' ? (
          <Field label={t('playground.language')} help={t('playground.language_help')}>
            {wiring => (
              <TextInput
                {...wiring}
                placeholder={t('playground.default')}
                value={values.language}
                onChange={event => set({ language: event.target.value })}
              />
            )}
          </Field>
        ) : null}
        <Field label={t('playground.temperature')}>
          {wiring => (
            <TextInput
              {...wiring}
              type="number"
              min={0}
              max={1}
              step={0.1}
              placeholder={t('playground.default')}
              value={values.temperature}
              onChange={event => set({ temperature: event.target.value })}
            />
          )}
        </Field>
        <FormatField
          formats={FORMATS}
          value={values.response_format}
          onChange={response_format => set({ response_format })}
        />
      </div>
      <fieldset className="flex flex-col gap-1" disabled={!isVerbose}>
        <legend className="text-label font-medium text-ink-2">{t('playground.granularity')}</legend>
        <div className="flex gap-4">
          {GRANULARITIES.map(name => (
            <Checkbox
              key={name}
              label={t(`playground.${name}`)}
              checked={granularities.includes(name)}
              onChange={event =>
                setGranularities(
                  event.target.checked
                    ? [...granularities, name]
                    : granularities.filter(each => each !== name),
                )
              }
            />
          ))}
        </div>
        {isVerbose ? null : <p className="text-label text-ink-3">{t('playground.granularity_help')}</p>}
      </fieldset>
    </Workbench>
  )
}
