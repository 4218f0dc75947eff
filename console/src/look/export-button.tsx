import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { Button } from './button.tsx'
import { Download } from './icons.ts'
import { useErrorText } from './states.tsx'
import { toast } from './toast.tsx'

type ExportButtonProps = {
  /** File name of the download. */
  readonly name: string
  /** Loads the data and returns the URL of the file. */
  readonly load: () => Promise<string>
}

/** Exports all pages of a list. The file is built on click. */
export function ExportButton({ name, load }: ExportButtonProps) {
  const { t } = useTranslation()
  const words = useErrorText()
  const [isBusy, setBusy] = useState(false)
  const save = async () => {
    setBusy(true)
    try {
      const link = document.createElement('a')
      link.href = await load()
      link.download = name
      link.click()
    } catch (error) {
      toast(words(error))
    } finally {
      setBusy(false)
    }
  }
  return (
    <Button icon={Download} isBusy={isBusy} onClick={() => void save()}>
      {t('usage.export.csv')}
    </Button>
  )
}
