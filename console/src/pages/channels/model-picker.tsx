import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { Button } from '../../look/button.tsx'
import { Checkbox, TextInput } from '../../look/field.tsx'

type ModelPickerProps = {
  /** What the provider offers. */
  readonly offered: readonly string[]
  /** The models in the form, which may differ from the saved ones. */
  readonly listed: readonly string[]
  readonly isPriced: ((model: string) => boolean) | undefined
  readonly onChange: (models: readonly string[]) => void
}

/**
 * The provider's models in three groups: available, selected, and no longer offered. Only checked models are
 * added.
 */
export function ModelPicker({ offered, listed, isPriced, onChange }: ModelPickerProps) {
  const { t } = useTranslation()
  const [text, setText] = useState('')
  // The groups stay fixed, so that a model does not move when it is checked.
  const [before] = useState(() => new Set(listed))
  const chosen = new Set(listed)
  const offers = new Set(offered)
  const matches = (model: string) => model.toLowerCase().includes(text.trim().toLowerCase())
  const groups = [
    { name: t('picker.available'), models: offered.filter(model => !before.has(model)) },
    { name: t('picker.selected'), models: offered.filter(model => before.has(model)) },
    { name: t('picker.removed'), models: [...before].filter(model => !offers.has(model)) },
  ]
  const tick = (model: string, isTicked: boolean) =>
    onChange(isTicked ? [...listed, model] : listed.filter(each => each !== model))
  const add = (models: readonly string[]) => onChange([...new Set([...listed, ...models])])
  const priced = offered.filter(model => isPriced?.(model))

  return (
    <div className="flex flex-col gap-3">
      <p className="text-ink-2" role="status">
        {t('picker.offered', { count: offered.length })}
        {isPriced ? ` ${t('picker.priced', { count: priced.length })}` : ''}
      </p>
      <div className="flex flex-wrap gap-2">
        <TextInput
          type="search"
          aria-label={t('picker.search')}
          placeholder={t('picker.search')}
          className="grow basis-40"
          value={text}
          onChange={event => setText(event.target.value)}
        />
        <Button onClick={() => add(offered.filter(matches))}>{t('picker.all')}</Button>
        {isPriced ? (
          <Button onClick={() => add(priced.filter(matches))}>{t('picker.all_priced')}</Button>
        ) : null}
        <Button onClick={() => onChange(listed.filter(model => !matches(model)))}>{t('picker.none')}</Button>
      </div>
      <div className="flex max-h-80 flex-col gap-3 overflow-y-auto rounded-control border border-line p-3">
        {groups
          .map(group => ({ ...group, models: group.models.filter(matches) }))
          .filter(({ models }) => models.length > 0)
          .map(({ name, models }) => (
            <fieldset key={name}>
              <legend className="pb-1 text-label font-medium text-ink-3">
                {name} ({models.length})
              </legend>
              <div className="flex flex-col">
                {models.map(model => (
                  // The browser skips layout of rows outside the viewport, which keeps lists of thousands fast.
                  <div key={model} className="[content-visibility:auto] [contain-intrinsic-height:28px]">
                    <Checkbox
                      checked={chosen.has(model)}
                      onChange={event => tick(model, event.target.checked)}
                      label={
                        <>
                          <span className="font-mono text-code break-all">{model}</span>
                          {isPriced && !isPriced(model) ? (
                            <span className="ml-2 text-label text-warn">{t('picker.no_price')}</span>
                          ) : null}
                        </>
                      }
                    />
                  </div>
                ))}
              </div>
            </fieldset>
          ))}
      </div>
    </div>
  )
}
