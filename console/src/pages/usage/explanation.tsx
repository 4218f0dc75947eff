import { Link, linkOptions } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import type { AnswerOf } from '../../api/contract.ts'
import { buttonClasses } from '../../look/button.tsx'
import { GatewayText } from '../../texts/gateway-text.tsx'

type Explained = AnswerOf<'explainRequest'>
type Action = NonNullable<Explained['action']>

/** What the action changes, without its kind. */
const nameIn = (target: string) => target.slice(target.indexOf(':') + 1)

/** The page on which a person takes the action. */
function linkOf({ kind, target }: Action) {
  const name = nameIn(target)
  switch (kind) {
    case 'set_price':
      return linkOptions({ to: '/prices', search: { edit: name } })
    case 'add_credit':
    case 'raise_user_limit':
      return linkOptions({ to: '/users/$id', params: { id: name } })
    case 'add_channel':
      return linkOptions({ to: '/channels/new' })
    case 'replace_key':
    case 'edit_channel':
      return linkOptions({ to: '/channels/$id/edit', params: { id: name } })
    case 'enable_channel':
      return linkOptions({ to: '/channels/$id', params: { id: name } })
    default:
      return linkOptions({ to: '/tokens/$id', params: { id: name } })
  }
}

type ExplanationProps = {
  readonly explanation: Explained
  /** Only these of its sentences. */
  readonly sentences?: readonly string[]
}

/** What happened to a request and why, and the action that solves it. */
export function Explanation({ explanation, sentences = explanation.sentences }: ExplanationProps) {
  const { t } = useTranslation()
  const { action } = explanation
  return (
    <>
      <ul className="flex flex-col gap-1.5 break-words">
        {sentences.map(sentence => (
          <li key={sentence}>
            <GatewayText text={sentence} />
          </li>
        ))}
      </ul>
      {action ? (
        <p>
          <Link {...linkOf(action)} className={buttonClasses('primary')}>
            {t(`explain.action.${action.kind}`, { name: nameIn(action.target) })}
          </Link>
        </p>
      ) : null}
    </>
  )
}
