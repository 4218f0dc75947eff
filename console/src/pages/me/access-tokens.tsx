import { useMemo, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { publicAddress } from '../../api/base-path.ts'
import type { AccessToken } from '../../api/contract.ts'
import { useContractForm } from '../../api/form.ts'
import { useCall, useRouteMutation } from '../../api/query.ts'
import { Button } from '../../look/button.tsx'
import { CodeBlock } from '../../look/code-block.tsx'
import { Confirm } from '../../look/confirm.tsx'
import { CopyButton } from '../../look/copy.tsx'
import { Dialog } from '../../look/dialog.tsx'
import { Choice, Field, TextInput } from '../../look/field.tsx'
import { FormDialog } from '../../look/form-dialog.tsx'
import { Plus } from '../../look/icons.ts'
import { Moment } from '../../look/moment.tsx'
import { Secret } from '../../look/secret.tsx'
import { Part } from '../../look/states.tsx'
import { DataTable } from '../../look/table.tsx'
import type { Column } from '../../look/table-props.ts'
import { toast } from '../../look/toast.tsx'

const DAY_S = 86_400
const DAYS = [7, 30, 90, 365] as const

type Values = { name: string; days: string }

/** Shows the new token once, with an example request. */
function CreatedAccessToken({ value, onClose }: { readonly value: string; readonly onClose: () => void }) {
  const { t } = useTranslation()
  const example = `curl ${publicAddress}/api/user/self -H 'Authorization: Bearer ${value}'`
  return (
    <Dialog title={t('access.created')} isOpen isWide closesByButtonOnly onClose={onClose}>
      <Secret label={t('access.title')} value={value} />
      <div className="flex flex-wrap items-center gap-2">
        <CodeBlock>{example}</CodeBlock>
        <CopyButton text={example} />
      </div>
      <Button kind="primary" className="self-end" onClick={onClose}>
        {t('tokens.done')}
      </Button>
    </Dialog>
  )
}

function Create({ onClose }: { readonly onClose: () => void }) {
  const { t } = useTranslation()
  const [created, setCreated] = useState<string>()
  const { form, submit, errorOf, isBusy, fault } = useContractForm<'createAccessToken', Values>({
    route: 'createAccessToken',
    defaults: { name: '', days: '' },
    toInput: ({ name, days }) => ({
      body: { name, expired_time: days === '' ? -1 : Math.floor(Date.now() / 1000) + Number(days) * DAY_S },
    }),
    onDone: ({ token }) => setCreated(token),
    names: { expired_time: 'days' },
  })
  if (created) return <CreatedAccessToken value={created} onClose={onClose} />
  return (
    <FormDialog
      title={t('access.create')}
      verb={t('access.create')}
      isBusy={isBusy}
      fault={fault}
      onSubmit={submit}
      onClose={onClose}
    >
      <Field label={t('tokens.name')} error={errorOf('name')} help={t('access.name_help')}>
        {wiring => <TextInput {...wiring} {...form.register('name')} autoComplete="off" />}
      </Field>
      <Field label={t('tokens.expires')} error={errorOf('days')}>
        {wiring => (
          <Choice {...wiring} {...form.register('days')}>
            <option value="">{t('common.never')}</option>
            {DAYS.map(days => (
              <option key={days} value={days}>
                {t('tokens.days', { count: days })}
              </option>
            ))}
          </Choice>
        )}
      </Field>
    </FormDialog>
  )
}

/**
 * Access tokens of the management API. `GET /api/user/token` is never called, because it rotates a token that
 * scripts use.
 */
export function AccessTokens() {
  const { t } = useTranslation()
  const list = useCall('listAccessTokens', { query: { page_size: 100 } })
  const remove = useRouteMutation('deleteAccessToken')
  const [isCreating, setCreating] = useState(false)
  const [revoking, setRevoking] = useState<AccessToken>()
  const rows = list.data?.items ?? []
  const columns = useMemo<readonly Column<AccessToken>[]>(
    () => [
      { id: 'name', header: t('tokens.name'), place: 'title', cell: ({ name }) => name },
      {
        id: 'token',
        header: t('access.value'),
        fromPx: 900,
        cell: ({ token }) => <code className="font-mono text-code">{token}</code>,
      },
      {
        id: 'made',
        header: t('common.created'),
        fromPx: 1100,
        cell: ({ created_time }) => <Moment at={created_time} />,
      },
      {
        id: 'used',
        header: t('tokens.last_used'),
        place: 'note',
        cell: ({ last_used_time }) => <Moment at={last_used_time} />,
      },
      {
        id: 'ends',
        header: t('tokens.expires'),
        place: 'figure',
        cell: ({ expired_time }) => <Moment at={expired_time} />,
      },
      {
        id: 'actions',
        header: t('common.actions'),
        isRight: true,
        place: 'action',
        cell: token => (
          <Button
            isSmall
            aria-label={t('access.revoke_one', { name: token.name })}
            onClick={() => setRevoking(token)}
          >
            {t('access.revoke')}
          </Button>
        ),
      },
    ],
    [t],
  )
  return (
    <section className="flex flex-col" aria-labelledby="system-access-tokens">
      <header className="flex flex-wrap items-center justify-between gap-2 px-4 py-3">
        <div>
          <h3 id="system-access-tokens" className="font-semibold">
            {t('access.title')}
          </h3>
          <p className="text-label text-ink-3">{t('access.help')}</p>
        </div>
        <Button icon={Plus} data-create onClick={() => setCreating(true)}>
          {t('access.create')}
        </Button>
      </header>
      <Part result={list}>
        {rows.length > 0 ? (
          <DataTable
            label={t('access.title')}
            columns={columns}
            rows={rows}
            idOf={row => String(row.id)}
            nameOf={row => row.name}
          />
        ) : (
          <p className="px-4 pb-4 text-ink-3">{t('access.none')}</p>
        )}
      </Part>
      {isCreating ? <Create onClose={() => setCreating(false)} /> : null}
      {revoking ? (
        <Confirm
          title={t('access.revoke_one', { name: revoking.name })}
          effect={t('access.revoke_effect')}
          verb={t('access.revoke')}
          onClose={() => setRevoking(undefined)}
          onConfirm={async () => {
            await remove.mutateAsync({ params: { id: revoking.id } })
            toast(t('access.revoked', { name: revoking.name }))
          }}
        />
      ) : null}
    </section>
  )
}
