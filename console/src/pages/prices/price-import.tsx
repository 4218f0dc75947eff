import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { useRouteMutation } from '../../api/query.ts'
import { Field, TextArea } from '../../look/field.tsx'
import { Upload } from '../../look/icons.ts'
import { useErrorText } from '../../look/states.tsx'
import { readPriceFile } from './price-file.ts'
import { PricePreviewDialog } from './price-preview-dialog.tsx'
import { usePricePreview } from './use-price-preview.ts'

/** Imports prices from pasted text or a file. The changes are shown before they are saved. */
export function PriceImport({ onClose }: { readonly onClose: () => void }) {
  const { t } = useTranslation()
  const words = useErrorText()
  const act = useRouteMutation('changePrices')
  const [text, setText] = useState('')
  const [fault, setFault] = useState<string>()
  const trial = usePricePreview(async isDry => {
    const reading = readPriceFile(text)
    if ('fault' in reading) return void setFault(t(`prices.file.${reading.fault}`, { at: reading.at }))
    return act.mutateAsync({ body: { prices: [...reading.prices], dry_run: isDry } }).catch(() => undefined)
  }, onClose)
  const change = (now: string) => {
    setText(now)
    setFault(undefined)
    trial.forget()
    act.reset()
  }
  return (
    <PricePreviewDialog
      title={t('prices.import')}
      trial={trial}
      isReady={text.trim() !== ''}
      isBusy={act.isPending}
      onClose={onClose}
    >
      <Field
        label={t('prices.file_text')}
        help={t('prices.file_help')}
        error={fault ?? (act.error ? words(act.error) : undefined)}
      >
        {wiring => (
          <TextArea
            {...wiring}
            rows={6}
            spellCheck={false}
            placeholder={'model,input,output\nmy-model,2.50,10'}
            className="font-mono text-code"
            value={text}
            onChange={event => change(event.target.value)}
          />
        )}
      </Field>
      <label className="inline-flex cursor-pointer items-center gap-2 self-start text-ink-2">
        <Upload size={16} aria-hidden />
        <span className="underline">{t('prices.choose_file')}</span>
        <input
          type="file"
          accept=".csv,text/csv"
          className="sr-only"
          onChange={async event => change((await event.target.files?.[0]?.text()) ?? '')}
        />
      </label>
    </PricePreviewDialog>
  )
}
