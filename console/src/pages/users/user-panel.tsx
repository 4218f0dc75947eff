import { Link, useNavigate, useParams } from '@tanstack/react-router'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import type { User } from '../../api/contract.ts'
import { changedFields, resetToSaved, useContractForm } from '../../api/form.ts'
import { useCall, useRouteMutation } from '../../api/query.ts'
import { ROLE, useIsRoot, useSelf } from '../../api/self.ts'
import { Button } from '../../look/button.tsx'
import { Confirm } from '../../look/confirm.tsx'
import { Entries } from '../../look/entries.tsx'
import { Checkbox, Field, TextInput } from '../../look/field.tsx'
import { FormError } from '../../look/form-error.tsx'
import { count, moneyOfSpan } from '../../look/format.ts'
import { LimitFields } from '../../look/limit-fields.tsx'
import { Moment } from '../../look/moment.tsx'
import { Facts, Panel, Section } from '../../look/panel.tsx'
import { Part, useErrorText } from '../../look/states.tsx'
import { StatusBadge } from '../../look/status-badge.tsx'
import { toast } from '../../look/toast.tsx'
import { useLinkedField } from '../../look/use-linked-field.ts'
import { BalanceForm } from './balance-form.tsx'
import { roleText } from './user-columns.tsx'

function UserActions({ user }: { readonly user: User }) {
  const { t } = useTranslation()
  const navigate = useNavigate()
  const words = useErrorText()
  const isRoot = useIsRoot()
  const manage = useRouteMutation('manageUser')
  const remove = useRouteMutation('deleteUser')
  const [isDeleting, setDeleting] = useState(false)
  const { id, username } = user
  const turn = (isOn: boolean, canUndo = true) =>
    manage.mutate(
      { body: { id, action: isOn ? 'enable' : 'disable' } },
      {
        onSuccess: () =>
          toast(
            isOn ? t('channels.enabled', { name: username }) : t('channels.disabled', { name: username }),
            canUndo ? () => turn(!isOn, false) : undefined,
          ),
      },
    )
  const isAdmin = user.role >= ROLE.admin
  return (
    <>
      <div className="flex flex-wrap gap-2">
        <Button onClick={() => turn(user.status !== 1)}>
          {user.status === 1 ? t('channels.disable') : t('channels.enable')}
        </Button>
        {isRoot ? (
          <Button onClick={() => manage.mutate({ body: { id, action: isAdmin ? 'demote' : 'promote' } })}>
            {isAdmin ? t('users.demote') : t('users.promote')}
          </Button>
        ) : null}
        <Button onClick={() => setDeleting(true)}>{t('common.delete')}</Button>
      </div>
      {manage.error ? (
        <p role="alert" className="text-bad">
          {words(manage.error)}
        </p>
      ) : null}
      {isDeleting ? (
        <Confirm
          title={t('users.delete_title', { name: username })}
          effect={<p>{t('users.delete_effect')}</p>}
          typed={username}
          verb={t('common.delete')}
          onClose={() => setDeleting(false)}
          onConfirm={async () => {
            await remove.mutateAsync({ params: { id } })
            toast(t('users.deleted', { name: username }))
            await navigate({ to: '/users', search: true })
          }}
        />
      ) : null}
    </>
  )
}

/** The ledger entries of this user, newest first. */
function UserEntries({ id }: { readonly id: number }) {
  const { t } = useTranslation()
  const result = useCall('listEntries', { query: { user_id: id, page_size: 10 } })
  const entries = result.data?.items ?? []
  return (
    <Section title={t('ledger.entries')}>
      <Part result={result}>
        {entries.length > 0 ? (
          <Entries entries={entries} isShort />
        ) : (
          <p className="text-ink-3">{t('ledger.no_entries')}</p>
        )}
      </Part>
    </Section>
  )
}

type Values = {
  display_name: string
  email: string
  rpm: string
  tpm: string
  concurrency: string
  password: string
  revoke_access_tokens: boolean
}
const limitOf = (text: string) => (text.trim() === '' ? null : Number(text))

const valuesOf = (user: User): Values => ({
  display_name: user.display_name,
  email: user.email,
  rpm: String(user.limits.rpm ?? ''),
  tpm: String(user.limits.tpm ?? ''),
  concurrency: String(user.limits.concurrency ?? ''),
  password: '',
  revoke_access_tokens: false,
})

const bodyOf = ({ display_name, email, rpm, tpm, concurrency }: Values) => ({
  display_name,
  email,
  limits: { rpm: limitOf(rpm), tpm: limitOf(tpm), concurrency: limitOf(concurrency) },
})

function Editor({ user }: { readonly user: User }) {
  const { t } = useTranslation()
  useLinkedField()
  const [before, setBefore] = useState(() => valuesOf(user))
  const { form, submit, errorOf, isBusy, fault } = useContractForm<'updateUser', Values>({
    route: 'updateUser',
    defaults: before,
    toInput: values => ({
      body: {
        id: user.id,
        ...changedFields(bodyOf(values), bodyOf(before)),
        ...(values.password === ''
          ? {}
          : { password: values.password, revoke_access_tokens: values.revoke_access_tokens }),
      },
    }),
    onDone: (_user, values) => {
      const next = { ...values, password: '', revoke_access_tokens: false }
      resetToSaved(form, values, next)
      setBefore(next)
      toast(t('editor.saved', { name: user.username }))
    },
    names: { limits: 'rpm' },
  })
  return (
    <Section title={t('common.edit')}>
      <form className="flex flex-col gap-4" onSubmit={event => void submit(event)}>
        <Field label={t('users.display_name')} error={errorOf('display_name')}>
          {wiring => <TextInput {...wiring} {...form.register('display_name')} autoComplete="off" />}
        </Field>
        <Field label={t('users.email')} error={errorOf('email')}>
          {wiring => <TextInput {...wiring} {...form.register('email')} type="email" autoComplete="off" />}
        </Field>
        <Field
          label={t('users.new_password')}
          error={errorOf('password')}
          help={t('users.new_password_help')}
        >
          {wiring => (
            <TextInput
              {...wiring}
              {...form.register('password')}
              type="password"
              autoComplete="new-password"
            />
          )}
        </Field>
        {form.watch('password') === '' ? null : (
          <Checkbox {...form.register('revoke_access_tokens')} label={t('users.revoke_access_tokens')} />
        )}
        <LimitFields register={form.register} errorOf={errorOf} />
        <FormError words={fault} />
        <Button type="submit" kind="primary" className="self-end" isBusy={isBusy}>
          {t('common.save')}
        </Button>
      </form>
    </Section>
  )
}

export function UserPanel() {
  const { t } = useTranslation()
  const navigate = useNavigate()
  const self = useSelf()
  const { id = '0' } = useParams({ strict: false })
  const result = useCall('getUser', { params: { id } })
  const user = result.data
  const isBelow = user !== undefined && user.role < self.role
  return (
    <Panel
      title={user?.username ?? t('nav.users')}
      onClose={() => void navigate({ to: '/users', search: true })}
    >
      <Part result={result}>
        {user ? (
          <>
            <Section title={t('channels.summary')}>
              <Facts
                facts={[
                  [
                    t('users.state'),
                    <StatusBadge key="gate" state={user.status === 1 ? 'enabled' : 'disabled'} />,
                  ],
                  [t('users.role'), roleText(t, user.role)],
                  [t('users.balance'), user.unlimited_quota ? t('balance.none') : moneyOfSpan(user.quota)],
                  [t('tokens.on_hold'), moneyOfSpan(user.held_quota)],
                  [t('users.spend'), moneyOfSpan(user.used_quota)],
                  [t('users.requests'), count(user.request_count)],
                  [t('users.last_login'), <Moment key="seen" at={user.last_login_time} />],
                  [t('common.created'), <Moment key="made" at={user.created_time} />],
                ]}
              />
              <p className="flex flex-wrap gap-4">
                <Link to="/" search={{ user_id: user.id }}>
                  {t('channels.usage_chart')}
                </Link>
                <Link to="/usage" search={{ user_id: user.id }}>
                  {t('channels.requests')}
                </Link>
                <Link to="/audit" search={{ target: `user:${user.id}` }}>
                  {t('channels.history')}
                </Link>
              </p>
              {isBelow ? (
                <UserActions key={user.id} user={user} />
              ) : (
                <p className="text-ink-3">{t('users.role_too_high')}</p>
              )}
            </Section>
            {isBelow && !user.unlimited_quota ? <BalanceForm key={`balance ${user.id}`} user={user} /> : null}
            <UserEntries id={user.id} />
            {isBelow ? <Editor key={`editor ${user.id}`} user={user} /> : null}
          </>
        ) : null}
      </Part>
    </Panel>
  )
}
