import { useTranslation } from 'react-i18next'
import { useSelf } from '../api/self.ts'
import { Key } from '../look/button.tsx'
import { Dialog } from '../look/dialog.tsx'
import { entriesFor } from './navigation.ts'

export function KeySheet({ isOpen, onClose }: { readonly isOpen: boolean; readonly onClose: () => void }) {
  const { t } = useTranslation()
  const { role } = useSelf()
  const general = [
    ['Ctrl K', t('keys.palette')],
    ['/', t('keys.filter')],
    ['c', t('keys.create')],
    ['j k', t('keys.rows')],
    ['Enter', t('keys.open')],
    ['x', t('keys.select')],
    ['Esc', t('keys.close')],
    ['?', t('keys.sheet')],
  ] as const
  const pages = entriesFor(role).map(({ letter, name }) => [`g ${letter}`, t(`nav.${name}`)] as const)
  return (
    <Dialog title={t('keys.title')} isOpen={isOpen} onClose={onClose}>
      <dl className="grid grid-cols-[auto_1fr] gap-x-4 gap-y-2">
        {[...general, ...pages].map(([key, words]) => (
          <div key={key} className="contents">
            <dt className="text-right">
              <Key>{key}</Key>
            </dt>
            <dd>{words}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  )
}
