import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { Choice, Field, TextArea, TextInput } from '../../look/field.tsx'
import { ModelField } from './model-field.tsx'
import { filledFields, numeric } from './parameters.ts'
import { useModel } from './use-model.ts'
import { Workbench } from './workbench.tsx'

type Pictures = {
  readonly data?: readonly {
    readonly b64_json?: string
    readonly url?: string
    readonly revised_prompt?: string
  }[]
}

const SIZES = ['1024x1024', '1536x1024', '1024x1536', '1792x1024', '1024x1792', '512x512', '256x256']
const QUALITIES = ['low', 'medium', 'high', 'standard', 'hd']
const ANSWERS = ['b64_json', 'url']

/** Image generation. */
export function Images() {
  const { t } = useTranslation()
  const [model, setModel] = useModel('image-generation')
  const [values, setValues] = useState({ prompt: '', n: '', size: '', quality: '', response_format: '' })
  const set = (changes: Partial<typeof values>) => setValues({ ...values, ...changes })
  const body = filledFields({ model, ...values, n: numeric(values.n) })
  const choice = (name: 'size' | 'quality' | 'response_format', options: readonly string[]) => (
    <Field label={t(`playground.${name}`)}>
      {wiring => (
        <Choice {...wiring} value={values[name]} onChange={event => set({ [name]: event.target.value })}>
          <option value="">{t('playground.default')}</option>
          {options.map(option => (
            <option key={option}>{option}</option>
          ))}
        </Choice>
      )}
    </Field>
  )
  return (
    <Workbench
      path="/v1/images/generations"
      body={body}
      isReady={model !== '' && values.prompt.trim() !== ''}
      read={response => response.json() as Promise<Pictures>}
      empty={t('playground.images_empty')}
      examples={(['image_example_one', 'image_example_two'] as const).map(name => ({
        words: t(`playground.${name}`),
        onTake: () => set({ prompt: t(`playground.${name}`) }),
      }))}
      show={({ data = [] }) => (
        <ul className="grid gap-3 sm:grid-cols-2">
          {data.map(({ b64_json, url, revised_prompt }, index) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: pictures are known by their number
            <li key={index} className="flex flex-col gap-1">
              {b64_json ? (
                <img
                  src={`data:image/png;base64,${b64_json}`}
                  alt={revised_prompt ?? values.prompt}
                  className="w-full rounded-control bg-sunken"
                />
              ) : (
                <a href={url} target="_blank" rel="noreferrer" className="break-all">
                  {t('playground.image_elsewhere')}
                </a>
              )}
              {revised_prompt ? <p className="text-label text-ink-3">{revised_prompt}</p> : null}
            </li>
          ))}
        </ul>
      )}
    >
      <ModelField kind="image-generation" value={model} onChange={setModel} />
      <Field label={t('playground.prompt')}>
        {wiring => (
          <TextArea
            {...wiring}
            rows={4}
            value={values.prompt}
            onChange={event => set({ prompt: event.target.value })}
          />
        )}
      </Field>
      <div className="grid grid-cols-2 gap-3">
        <Field label={t('playground.n')}>
          {wiring => (
            <TextInput
              {...wiring}
              type="number"
              min={1}
              max={10}
              placeholder={t('playground.default')}
              value={values.n}
              onChange={event => set({ n: event.target.value })}
            />
          )}
        </Field>
        {choice('size', SIZES)}
        {choice('quality', QUALITIES)}
        {choice('response_format', ANSWERS)}
      </div>
    </Workbench>
  )
}
