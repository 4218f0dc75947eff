import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { Button } from '../../look/button.tsx'
import { Dialog } from '../../look/dialog.tsx'
import { Field, TextInput } from '../../look/field.tsx'
import { Download, X } from '../../look/icons.ts'
import { ErrorCard } from '../../look/states.tsx'
import { ModelPicker } from './model-picker.tsx'
import { useIsPriced } from './use-priced.ts'

type ModelListProps = {
  readonly models: readonly string[]
  readonly onChange: (models: readonly string[]) => void
  readonly error?: string | undefined
  /** Fetches the provider's models; absent when the provider has no list. */
  readonly fetchModels?: (() => Promise<readonly string[]>) | undefined
}

/** The models of a channel: fetched, typed, or pasted with commas or line breaks. */
export function ModelList({ models, onChange, error, fetchModels }: ModelListProps) {
  const { t } = useTranslation()
  const isPriced = useIsPriced()
  const [text, setText] = useState('')
  const [offered, setOffered] = useState<readonly string[]>()
  const [fault, setFault] = useState<unknown>()
  const [isBusy, setBusy] = useState(false)

  const add = (typedText: string) => {
    const names = typedText.split(/[,\n\r]+/).map(name => name.trim())
    onChange([...new Set([...models, ...names.filter(name => name !== '')])])
    setText('')
  }
  const ask = async () => {
    if (!fetchModels) return
    setBusy(true)
    setFault(undefined)
    try {
      setOffered(await fetchModels())
    } catch (problem) {
      setFault(problem)
    } finally {
      setBusy(false)
    }
  }
  const duplicates = new Set(
    models.filter((model, index) =>
      models.some((other, at) => at !== index && other.toLowerCase() === model.toLowerCase()),
    ),
  )

  return (
    <div className="flex flex-col gap-3">
      <Field label={t('editor.models')} error={error} help={t('editor.models_help')}>
        {wiring => (
          <div className="flex flex-wrap gap-2">
            <TextInput
              {...wiring}
              className="grow basis-48 font-mono"
              value={text}
              onChange={event => setText(event.target.value)}
              onBlur={() => text.trim() && add(text)}
              onPaste={event => {
                const pasted = event.clipboardData.getData('text')
                if (!/[,\n]/.test(pasted)) return
                event.preventDefault()
                add(pasted)
              }}
              onKeyDown={event => {
                if (event.key !== 'Enter' || event.nativeEvent.isComposing) return
                event.preventDefault()
                add(text)
              }}
            />
            {fetchModels ? (
              <Button icon={Download} isBusy={isBusy} onClick={() => void ask()}>
                {t('editor.fetch')}
              </Button>
            ) : null}
          </div>
        )}
      </Field>
      {fault ? <ErrorCard error={fault} /> : null}
      <ul className="flex max-h-60 flex-wrap gap-1.5 overflow-y-auto" aria-label={t('editor.models')}>
        {models.map(model => (
          <li
            key={model}
            className="inline-flex items-center gap-1 rounded-control bg-sunken py-0.5 pr-0.5 pl-2"
          >
            <span className="font-mono text-code break-all">{model}</span>
            {isPriced && !isPriced(model) ? (
              <span className="text-label text-warn">{t('picker.no_price')}</span>
            ) : null}
            {duplicates.has(model) ? (
              <span className="text-label text-warn">{t('editor.differs_in_case')}</span>
            ) : null}
            <button
              type="button"
              aria-label={t('editor.remove', { name: model })}
              onClick={() => onChange(models.filter(each => each !== model))}
              className="grid size-6 place-items-center rounded-control hover:bg-line"
            >
              <X size={14} aria-hidden />
            </button>
          </li>
        ))}
      </ul>
      {offered ? (
        <Dialog title={t('picker.title')} isOpen isWide onClose={() => setOffered(undefined)}>
          <ModelPicker offered={offered} listed={models} isPriced={isPriced} onChange={onChange} />
          <div className="flex justify-end">
            <Button kind="primary" onClick={() => setOffered(undefined)}>
              {t('picker.done', { count: models.length })}
            </Button>
          </div>
        </Dialog>
      ) : null}
    </div>
  )
}
