import { CalendarPlus, Power, PowerOff, Trash2 } from 'lucide-react'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import type { Token } from '../../api/contract.ts'
import { inTurns } from '../../api/in-turns.ts'
import { useAct } from '../../api/query.ts'
import { Button } from '../../look/button.tsx'
import { Confirm } from '../../look/confirm.tsx'
import { SelectionBar } from '../../look/selection-bar.tsx'
import { useFaultWords } from '../../look/states.tsx'
import { toast } from '../../look/toast.tsx'

type TokenBulkProps = {
  readonly tokens: readonly Token[]
  readonly onSelect: (ids: ReadonlySet<string>) => void
}

const OFF = 2
const NEVER = -1
const MONTH_S = 30 * 86_400

/** What can be done to the selected tokens; those that were refused stay selected. */
export function TokenBulk({ tokens, onSelect }: TokenBulkProps) {
  const { t } = useTranslation()
  const words = useFaultWords()
  const update = useAct('updateToken')
  const remove = useAct('deleteTokens')
  const [isBusy, setBusy] = useState(false)
  const [isDeleting, setDeleting] = useState(false)
  const [fault, setFault] = useState<string>()
  const clear = () => onSelect(new Set())

  const change = async (
    some: readonly Token[],
    bodyOf: (token: Token) => { status?: number; expired_time?: number },
    undo?: () => void,
  ) => {
    setBusy(true)
    setFault(undefined)
    const results = await inTurns(some, token =>
      update.mutateAsync({ body: { id: token.id, ...bodyOf(token) } }).then(
        () => undefined,
        error => ({ token, words: words(error) }),
      ),
    )
    setBusy(false)
    const refused = results.filter(result => result !== undefined)
    toast(t('bulk.edited', { done: some.length - refused.length, count: some.length }), undo)
    if (refused.length === 0) return
    setFault(refused.map(each => `${each.token.name}: ${each.words}`).join(' · '))
    onSelect(new Set(refused.map(({ token }) => String(token.id))))
  }
  const turn = (isOn: boolean) => {
    const some = tokens.filter(({ status }) => (status === OFF) === isOn)
    const back = () => void change(some, () => ({ status: isOn ? OFF : 1 }))
    if (some.length > 0) void change(some, () => ({ status: isOn ? 1 : OFF }), back)
  }
  const limited = tokens.filter(({ expired_time }) => expired_time !== NEVER)
  const extend = () => {
    const now = Math.floor(Date.now() / 1000)
    const later = ({ expired_time }: Token) => ({ expired_time: Math.max(expired_time, now) + MONTH_S })
    const back = () => void change(limited, ({ expired_time }) => ({ expired_time }))
    void change(limited, later, back)
  }
  return (
    <SelectionBar label={t('tokens.selected')} count={tokens.length} onClear={clear}>
      <Button icon={Power} isBusy={isBusy} onClick={() => turn(true)}>
        {t('channels.turn_on')}
      </Button>
      <Button icon={PowerOff} isBusy={isBusy} onClick={() => turn(false)}>
        {t('channels.turn_off')}
      </Button>
      <Button icon={CalendarPlus} isBusy={isBusy} disabled={limited.length === 0} onClick={extend}>
        {t('tokens.extend')}
      </Button>
      <Button icon={Trash2} onClick={() => setDeleting(true)}>
        {t('common.delete')}
      </Button>
      {fault ? (
        <p role="alert" className="w-full px-2 text-bad">
          {fault}
        </p>
      ) : null}
      {isDeleting ? (
        <Confirm
          title={t('tokens.delete_several', { count: tokens.length })}
          effect={
            <>
              <p>{t('tokens.delete_effect')}</p>
              <p className="break-words">{tokens.map(({ name }) => name).join(', ')}</p>
            </>
          }
          verb={t('common.delete')}
          typed={String(tokens.length)}
          onClose={() => setDeleting(false)}
          onConfirm={async () => {
            const count = await remove.mutateAsync({ body: { ids: tokens.map(({ id }) => id) } })
            toast(t('tokens.deleted_several', { count }))
            clear()
          }}
        />
      ) : null}
    </SelectionBar>
  )
}
