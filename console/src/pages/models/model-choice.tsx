import { useId, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { useCall } from '../../api/query.ts'
import { Button } from '../../look/button.tsx'
import { Field, TextInput } from '../../look/field.tsx'
import { X } from '../../look/icons.ts'

type ModelChoiceProps = {
  readonly chosen: readonly string[]
  readonly onChange: (models: readonly string[]) => void
  readonly error?: string | undefined
}

/** Selects models from the available ones, or by typed or pasted names. */
export function ModelChoice({ chosen, onChange, error }: ModelChoiceProps) {
  const { t } = useTranslation()
  const list = useId()
  const usable = useCall('listUsableModels', {})
  const [text, setText] = useState('')
  const add = (typedText: string) => {
    const names = typedText.split(/[,\n\r]+/).map(name => name.trim())
    onChange([...new Set([...chosen, ...names.filter(name => name !== '')])])
    setText('')
  }
  return (
    <div className="flex flex-col gap-2">
      <Field label={t('tokens.add_model')} error={error} help={t('editor.models_help')}>
        {wiring => (
          <span className="flex gap-2">
            <TextInput
              {...wiring}
              list={list}
              className="font-mono"
              value={text}
              onChange={event => setText(event.target.value)}
              onBlur={() => text.trim() && add(text)}
              onKeyDown={event => {
                if (event.key !== 'Enter' || event.nativeEvent.isComposing) return
                event.preventDefault()
                add(text)
              }}
            />
            <Button onClick={() => add(text)}>{t('common.add')}</Button>
          </span>
        )}
      </Field>
      <datalist id={list}>
        {usable.data
          ?.filter(model => !chosen.includes(model))
          .map(model => (
            <option key={model} value={model} />
          ))}
      </datalist>
      <ul className="flex flex-wrap gap-1.5" aria-label={t('tokens.models')}>
        {chosen.map(model => (
          <li
            key={model}
            className="inline-flex items-center gap-1 rounded-control bg-sunken py-0.5 pr-0.5 pl-2"
          >
            <span className="font-mono text-code break-all">{model}</span>
            <button
              type="button"
              aria-label={t('editor.remove', { name: model })}
              onClick={() => onChange(chosen.filter(each => each !== model))}
              className="grid size-6 place-items-center rounded-control hover:bg-line"
            >
              <X size={14} aria-hidden />
            </button>
          </li>
        ))}
      </ul>
    </div>
  )
}
