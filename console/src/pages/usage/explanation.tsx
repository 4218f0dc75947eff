import { Link, linkOptions } from '@tanstack/react-router'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import type { AnswerOf } from '../../api/contract.ts'
import { Button, buttonClasses } from '../../look/button.tsx'
import { Confirm } from '../../look/confirm.tsx'
import { useChannelSwitch } from '../channels/use-channel-switch.ts'
import { LinkedText } from './linked-text.tsx'

type Explained = AnswerOf<'explainRequest'>
type Action = NonNullable<Explained['action']>

/** What the action changes, without its kind. */
const idIn = (target: string) => target.slice(target.indexOf(':') + 1)

/** The field that a form focuses. */
const FIELDS: Partial<Record<Action['kind'], string>> = {
  add_credit: 'balance',
  raise_user_limit: 'limits',
  replace_key: 'key',
  edit_base_url: 'base_url',
  edit_mapping: 'model_mapping',
  allow_address: 'allow_ips',
  allow_model: 'models',
  extend_token: 'expiry',
  raise_token_quota: 'quota',
  raise_token_limit: 'limits',
}

/** The place at which a person takes the action. */
function linkOf({ kind, target }: Action) {
  const id = idIn(target)
  const hash = FIELDS[kind] ?? ''
  switch (kind) {
    case 'set_price':
      return linkOptions({ to: '/prices', search: { edit: id } })
    case 'add_credit':
    case 'raise_user_limit':
    case 'enable_user':
      return linkOptions({ to: '/users/$id', params: { id }, hash })
    case 'add_channel':
      return linkOptions({ to: '/channels/new' })
    case 'replace_key':
    case 'edit_base_url':
    case 'edit_mapping':
      return linkOptions({ to: '/channels/$id/edit', params: { id }, hash })
    case 'enable_channel':
    case 'open_channel':
      return linkOptions({ to: '/channels/$id', params: { id } })
    default:
      return linkOptions({ to: '/tokens/$id', params: { id }, hash })
  }
}

/** Enables the channel at once, after a confirmation. */
function EnableChannel({ action }: { readonly action: Action }) {
  const { t } = useTranslation()
  const turn = useChannelSwitch()
  const [isAsked, ask] = useState(false)
  const { name } = action
  return (
    <>
      <Button kind="primary" onClick={() => ask(true)}>
        {t('explain.action.enable_channel', { name })}
      </Button>
      {isAsked ? (
        <Confirm
          title={t('explain.action.enable_channel', { name })}
          effect={<p>{t('explain.enable_effect')}</p>}
          verb={t('channels.enable')}
          kind="primary"
          onConfirm={() => turn({ id: Number(idIn(action.target)), name }, true)}
          onClose={() => ask(false)}
        />
      ) : null}
    </>
  )
}

type ExplanationProps = {
  readonly explanation: Explained
  /** Only these of its sentences. */
  readonly sentences?: readonly string[]
}

/** What happened to a request and why, and the action that solves it. */
export function Explanation({ explanation, sentences = explanation.sentences }: ExplanationProps) {
  const { t } = useTranslation()
  const { action, request } = explanation
  return (
    <>
      <ul className="flex flex-col gap-1.5 break-words">
        {sentences.map(sentence => (
          <li key={sentence}>
            <LinkedText text={sentence} ownerId={request?.user_id ?? 0} />
          </li>
        ))}
      </ul>
      {action ? (
        <p className="flex flex-wrap gap-2">
          {action.kind === 'enable_channel' ? (
            <EnableChannel action={action} />
          ) : (
            <Link {...linkOf(action)} className={buttonClasses('primary')}>
              {t(`explain.action.${action.kind}`, { name: action.name })}
            </Link>
          )}
        </p>
      ) : null}
    </>
  )
}
