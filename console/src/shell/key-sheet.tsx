import { useTranslation } from 'react-i18next'
import { useSelf } from '../api/self.ts'
import { Key } from '../look/button.tsx'
import { Dialog } from '../look/dialog.tsx'
import { visibleKeys } from '../look/page-keys.ts'
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
    ['Shift x', t('keys.select_range')],
    ['Ctrl A', t('keys.select_all')],
    ['Ctrl S', t('keys.save')],
    ['Esc', t('keys.close')],
    ['?', t('keys.sheet')],
  ] as const
  const pages = entriesFor(role).map(({ letter, name }) => [`g ${letter}`, t(`nav.${name}`)] as const)
  return (
    <Dialog title={t('keys.title')} isOpen={isOpen} onClose={onClose}>
      <div className="flex flex-col gap-4">
        <Keys title={t('keys.here')} keys={isOpen ? visibleKeys() : []} />
        <Keys title={t('keys.everywhere')} keys={general} />
        <Keys title={t('keys.pages')} keys={pages} />
      </div>
    </Dialog>
  )
}

function Keys({
  title,
  keys,
}: {
  readonly title: string
  readonly keys: readonly (readonly [string, string])[]
}) {
  if (keys.length === 0) return null
  return (
    <section className="flex flex-col gap-2">
      <h3 className="text-label font-medium text-ink-3">{title}</h3>
      <dl className="grid grid-cols-[88px_1fr] gap-x-4 gap-y-1.5">
        {keys.map(([key, words]) => (
          <div key={key} className="contents">
            <dt className="text-right whitespace-nowrap">
              <Key>{key}</Key>
            </dt>
            <dd>{words}</dd>
          </div>
        ))}
      </dl>
    </section>
  )
}
