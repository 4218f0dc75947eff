import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { call } from '../../api/client.ts'
import type { Token } from '../../api/contract.ts'
import { useRouteMutation } from '../../api/query.ts'
import { BulkErrors, useBulkChange } from '../../look/bulk-change.tsx'
import { Button, buttonClasses } from '../../look/button.tsx'
import { Confirm } from '../../look/confirm.tsx'
import { csvFile } from '../../look/csv.ts'
import { AmountInput, Field } from '../../look/field.tsx'
import { FormDialog } from '../../look/form-dialog.tsx'
import { unitsOfUsd } from '../../look/format.ts'
import { CalendarPlus, Coins, Download, Power, PowerOff, Trash2 } from '../../look/icons.ts'
import type { RowSelection } from '../../look/selection.ts'
import { SelectionBar } from '../../look/selection-bar.tsx'
import { toast } from '../../look/toast.tsx'

const OFF = 2
const NEVER = -1
const MONTH_S = 30 * 86_400

/** All fields except the key. */
const EXPORTED = [
  'id',
  'name',
  'status',
  'remain_quota',
  'unlimited_quota',
  'used_quota',
  'expired_time',
  'created_time',
  'accessed_time',
] as const

type RaiseProps = {
  readonly count: number
  readonly onRaise: (units: number) => void
  readonly onClose: () => void
}

/** Raises the limit of each token by the same amount. */
function Raise({ count, onRaise, onClose }: RaiseProps) {
  const { t } = useTranslation()
  const [amount, setAmount] = useState('')
  const units = unitsOfUsd(Number(amount))
  return (
    <FormDialog
      title={t('tokens.raise_title', { count })}
      verb={t('tokens.raise')}
      isReady={units > 0}
      onSubmit={() => {
        onRaise(units)
        onClose()
      }}
      onClose={onClose}
    >
      <Field label={t('tokens.amount')} help={t('tokens.raise_help')}>
        {wiring => (
          <AmountInput {...wiring} value={amount} onChange={event => setAmount(event.target.value)} />
        )}
      </Field>
    </FormDialog>
  )
}

/** Bulk actions on the selected tokens. */
export function TokenBulk({ selection }: { readonly selection: RowSelection<Token> }) {
  const { t } = useTranslation()
  const { rows: tokens, onChange: select } = selection
  const { change, isBusy, faults } = useBulkChange(selection, {
    idOf: ({ id }) => String(id),
    nameOf: ({ name }) => name,
  })
  const remove = useRouteMutation('deleteTokens')
  const [isDeleting, setDeleting] = useState(false)
  const [isRaising, setRaising] = useState(false)
  const write = ({ id }: Token, fields: { status?: number; expired_time?: number; remain_quota?: number }) =>
    call('updateToken', { body: { id, ...fields } })

  const turn = (isOn: boolean) => {
    const some = tokens.filter(({ status }) => (status === OFF) === isOn)
    const back = () => void change(some, token => write(token, { status: isOn ? OFF : 1 }))
    void change(some, token => write(token, { status: isOn ? 1 : OFF }), back)
  }
  const limited = tokens.filter(({ expired_time }) => expired_time !== NEVER)
  const extend = () => {
    const now = Math.floor(Date.now() / 1000)
    const back = () => void change(limited, token => write(token, { expired_time: token.expired_time }))
    const later = (token: Token) =>
      write(token, { expired_time: Math.max(token.expired_time, now) + MONTH_S })
    void change(limited, later, back)
  }
  const capped = tokens.filter(({ unlimited_quota }) => !unlimited_quota)
  /** The remaining quota changes with usage, so it is read again before it is raised. */
  const raise = (units: number) =>
    void change(capped, async token => {
      const { remain_quota } = await call('getToken', { params: { id: token.id } })
      return write(token, { remain_quota: remain_quota + units })
    })
  return (
    <SelectionBar label={t('tokens.selected')} selection={selection}>
      <Button icon={Power} isBusy={isBusy} onClick={() => turn(true)}>
        {t('channels.enable')}
      </Button>
      <Button icon={PowerOff} isBusy={isBusy} onClick={() => turn(false)}>
        {t('channels.disable')}
      </Button>
      <Button icon={CalendarPlus} isBusy={isBusy} disabled={limited.length === 0} onClick={extend}>
        {t('tokens.extend')}
      </Button>
      <Button icon={Coins} isBusy={isBusy} disabled={capped.length === 0} onClick={() => setRaising(true)}>
        {t('tokens.raise')}
      </Button>
      <a download="tokens.csv" href={csvFile(EXPORTED, tokens)} className={buttonClasses('plain')}>
        <Download size={16} aria-hidden />
        {t('usage.export.csv')}
      </a>
      <Button icon={Trash2} onClick={() => setDeleting(true)}>
        {t('common.delete')}
      </Button>
      <BulkErrors faults={faults} />
      {isRaising ? <Raise count={capped.length} onRaise={raise} onClose={() => setRaising(false)} /> : null}
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
            select(new Set())
          }}
        />
      ) : null}
    </SelectionBar>
  )
}
