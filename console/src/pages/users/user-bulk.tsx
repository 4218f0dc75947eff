import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { call } from '../../api/client.ts'
import type { User } from '../../api/contract.ts'
import { BulkErrors, useBulkChange } from '../../look/bulk-change.tsx'
import { Button, buttonClasses } from '../../look/button.tsx'
import { csvFile } from '../../look/csv.ts'
import { AmountInput, Checkbox, Field, TextInput } from '../../look/field.tsx'
import { FormDialog } from '../../look/form-dialog.tsx'
import { moneyOfSpan, unitsOfUsd } from '../../look/format.ts'
import { Coins, Download, Gauge, Power, PowerOff } from '../../look/icons.ts'
import { LIMITS } from '../../look/limit-fields.tsx'
import type { RowSelection } from '../../look/selection.ts'
import { SelectionBar } from '../../look/selection-bar.tsx'

type Limit = (typeof LIMITS)[number]
const EXPORTED = ['id', 'username', 'display_name', 'role', 'status', 'email'] as const
const FIGURES = ['quota', 'used_quota', 'request_count', 'last_login_time'] as const

type LayerProps = { readonly count: number; readonly onClose: () => void }

/** Starts the change and closes the dialog. */
const sending = (send: () => void, onClose: () => void) => () => {
  send()
  onClose()
}

type Credit = { readonly units: number; readonly reason: string }

/** Adds the same credit to each user. */
function AddBalance({ count, onAdd, onClose }: LayerProps & { readonly onAdd: (gift: Credit) => void }) {
  const { t } = useTranslation()
  const [amount, setAmount] = useState('')
  const [reason, setReason] = useState('')
  const units = unitsOfUsd(Number(amount))
  return (
    <FormDialog
      title={t('users.add_balance_title', { count })}
      verb={t('users.add_balance')}
      isReady={units > 0 && reason.trim() !== ''}
      onSubmit={sending(() => onAdd({ units, reason }), onClose)}
      onClose={onClose}
    >
      <Field label={t('tokens.amount')}>
        {wiring => (
          <AmountInput {...wiring} value={amount} onChange={event => setAmount(event.target.value)} />
        )}
      </Field>
      <Field label={t('users.reason')} help={t('users.reason_help')}>
        {wiring => <TextInput {...wiring} value={reason} onChange={event => setReason(event.target.value)} />}
      </Field>
      {units > 0 ? (
        <p role="status">{t('users.add_balance_each', { amount: moneyOfSpan(units), count })}</p>
      ) : null}
    </FormDialog>
  )
}

type Limits = Partial<Record<Limit, number | null>>

/** Sets the checked limits. Blank means unlimited. */
function SetLimits({ count, onSet, onClose }: LayerProps & { readonly onSet: (limits: Limits) => void }) {
  const { t } = useTranslation()
  const [limits, setLimits] = useState<Partial<Record<Limit, string>>>({})
  const checkedLimits = Object.entries(limits).filter(([, text]) => text !== undefined)
  return (
    <FormDialog
      title={t('users.limits_title', { count })}
      verb={t('common.save')}
      isReady={checkedLimits.length > 0}
      onSubmit={sending(
        () =>
          onSet(
            Object.fromEntries(
              checkedLimits.map(([name, text]) => [name, text === '' ? null : Number(text)]),
            ),
          ),
        onClose,
      )}
      onClose={onClose}
    >
      <p className="text-ink-2">{t('users.limits_help')}</p>
      {LIMITS.map(name => (
        <div key={name} className="grid items-center gap-2 sm:grid-cols-[220px_1fr]">
          <Checkbox
            label={t(`limits.${name}`)}
            checked={limits[name] !== undefined}
            onChange={event =>
              setLimits(({ [name]: _dropped, ...before }) =>
                event.target.checked ? { ...before, [name]: '' } : before,
              )
            }
          />
          <TextInput
            aria-label={t(`limits.${name}`)}
            type="number"
            min={1}
            placeholder={t('limits.none')}
            value={limits[name] ?? ''}
            onChange={event => setLimits(before => ({ ...before, [name]: event.target.value }))}
          />
        </div>
      ))}
    </FormDialog>
  )
}

/** Bulk actions on the selected users. */
export function UserBulk({ selection }: { readonly selection: RowSelection<User> }) {
  const { t } = useTranslation()
  const { rows: users } = selection
  const [layer, setLayer] = useState<'balance' | 'limits'>()
  const { change, isBusy, faults } = useBulkChange(selection, {
    idOf: ({ id }) => String(id),
    nameOf: ({ username }) => username,
  })
  const close = () => setLayer(undefined)
  const manage = async (user: User, action: 'enable' | 'disable') =>
    (await call('manageUser', { body: { id: user.id, action } })) ?? user
  const turn = (isOn: boolean) => {
    const some = users.filter(({ status }) => (status === 1) !== isOn)
    const [there, back] = isOn ? (['enable', 'disable'] as const) : (['disable', 'enable'] as const)
    void change(
      some,
      user => manage(user, there),
      () => void change(some, user => manage(user, back)),
    )
  }
  const add = ({ units, reason }: Credit) => {
    // With a key per user, a retry does not add the credit twice.
    const run = crypto.getRandomValues(new Uint32Array(4)).join('-')
    void change(users, async user => {
      const body = { id: user.id, action: 'add_quota', mode: 'add', value: units, reason } as const
      return (await call('manageUser', { body }, { idempotencyKey: `${run}-${user.id}` })) ?? user
    })
  }
  const limit = (limits: Limits) =>
    void change(users, ({ id }) => call('updateUser', { body: { id, limits } }))
  return (
    <SelectionBar label={t('users.selected')} selection={selection}>
      <Button icon={Power} isBusy={isBusy} onClick={() => turn(true)}>
        {t('channels.enable')}
      </Button>
      <Button icon={PowerOff} isBusy={isBusy} onClick={() => turn(false)}>
        {t('channels.disable')}
      </Button>
      <Button icon={Coins} isBusy={isBusy} onClick={() => setLayer('balance')}>
        {t('users.add_balance')}
      </Button>
      <Button icon={Gauge} isBusy={isBusy} onClick={() => setLayer('limits')}>
        {t('users.set_limits')}
      </Button>
      <a
        download="users.csv"
        href={csvFile([...EXPORTED, ...FIGURES], users)}
        className={buttonClasses('plain')}
      >
        <Download size={16} aria-hidden />
        {t('usage.export.csv')}
      </a>
      <BulkErrors faults={faults} />
      {layer === 'balance' ? <AddBalance count={users.length} onAdd={add} onClose={close} /> : null}
      {layer === 'limits' ? <SetLimits count={users.length} onSet={limit} onClose={close} /> : null}
    </SelectionBar>
  )
}
