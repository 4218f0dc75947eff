import { Download } from 'lucide-react'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { Button } from './button.tsx'
import { useErrorText } from './states.tsx'
import { toast } from './toast.tsx'

type ExportButtonProps = {
  /** What the file is called. */
  readonly name: string
  /** Reads what is to be in it, and answers where it is to be had. */
  readonly load: () => Promise<string>
}

/** A file of more than is in sight, made when somebody wants it. */
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
