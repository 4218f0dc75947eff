import { Upload } from 'lucide-react'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { useAct } from '../../api/query.ts'
import { Button } from '../../look/button.tsx'
import { Dialog } from '../../look/dialog.tsx'
import { Field, TextArea } from '../../look/field.tsx'
import { useFaultWords } from '../../look/states.tsx'
import { toast } from '../../look/toast.tsx'
import { PriceChanges, type PriceResult } from './price-changes.tsx'
import { readPriceFile } from './price-file.ts'

/** A table of prices, pasted or chosen as a file; what differs is shown before anything is set. */
export function PriceImport({ onClose }: { readonly onClose: () => void }) {
  const { t } = useTranslation()
  const words = useFaultWords()
  const act = useAct('changePrices')
  const [text, setText] = useState('')
  const [fault, setFault] = useState<string>()
  const [results, setResults] = useState<readonly PriceResult[]>()
  const change = (now: string) => {
    setText(now)
    setFault(undefined)
    setResults(undefined)
    act.reset()
  }
  const ask = async (isDry: boolean) => {
    const reading = readPriceFile(text)
    if ('fault' in reading) return setFault(t(`prices.file.${reading.fault}`, { at: reading.at }))
    const body = { prices: [...reading.prices], dry_run: isDry }
    const told = await act.mutateAsync({ body }).catch(() => undefined)
    if (!told) return
    if (isDry) return setResults(told)
    toast(t('prices.set_several', { count: told.filter(({ is_changed }) => is_changed).length }))
    onClose()
  }
  const changed = results?.filter(({ is_changed }) => is_changed).length ?? 0
  return (
    <Dialog title={t('prices.import')} isOpen isWide onClose={onClose}>
      <form
        className="flex flex-col gap-4"
        onSubmit={event => {
          event.preventDefault()
          void ask(results === undefined)
        }}
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
        {results ? <PriceChanges results={results} /> : null}
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>{t('common.cancel')}</Button>
          <Button
            type="submit"
            kind="primary"
            isBusy={act.isPending}
            disabled={text.trim() === '' || (results !== undefined && changed === 0)}
          >
            {results ? t('prices.set_all', { count: changed }) : t('prices.show_changes')}
          </Button>
        </div>
      </form>
    </Dialog>
  )
}
