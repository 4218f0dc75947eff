import { useTranslation } from 'react-i18next'
import type { ConfigChangeItem } from '../../api/contract.ts'

const KINDS = ['alert_rule', 'alias', 'channel', 'price', 'setting', 'token_limits', 'user_limits'] as const

/** The label of an object, such as `Channel "main"`. */
export function useObjectLabel(): (change: Pick<ConfigChangeItem, 'target' | 'name'>) => string {
  const { t } = useTranslation()
  return ({ target, name }) => {
    const kind = KINDS.find(each => target.startsWith(`${each}:`))
    return kind === undefined ? target : `${t(`history.kinds.${kind}`)} ${name}`
  }
}

const MAX_LENGTH = 400
function valueText(value: unknown): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return text.length > MAX_LENGTH ? `${text.slice(0, MAX_LENGTH)}…` : text
}

function Values({ field }: { readonly field: ConfigChangeItem['fields'][number] }) {
  const [hasBefore, hasAfter] = ['before' in field, 'after' in field]
  return (
    <dd className="min-w-0 font-mono text-code break-all">
      {hasBefore ? <del className="text-bad">{valueText(field.before)}</del> : null}
      {hasBefore && hasAfter ? ' → ' : null}
      {hasAfter ? <ins className="text-ok no-underline">{valueText(field.after)}</ins> : null}
    </dd>
  )
}

/** Changed fields, each with its values before and after. */
export function FieldList({ fields }: { readonly fields: ConfigChangeItem['fields'] }) {
  return (
    <dl className="mt-1 flex flex-col gap-1.5 text-table">
      {fields.map(field => (
        <div key={field.path}>
          <dt className="text-ink-3">{field.path}</dt>
          <Values field={field} />
        </div>
      ))}
    </dl>
  )
}

/** The changed objects, each with its changed fields. */
export function ChangeList({ changes }: { readonly changes: readonly ConfigChangeItem[] }) {
  const { t } = useTranslation()
  const labelOf = useObjectLabel()
  return (
    <ul className="flex flex-col gap-4 text-table">
      {changes.map(change => (
        <li key={change.target} className="min-w-0">
          <h4 className="font-semibold break-words">
            {labelOf(change)}
            {change.action === 'create' ? <span className="text-ok"> {t('history.created')}</span> : null}
            {change.action === 'delete' ? <span className="text-bad"> {t('history.deleted')}</span> : null}
          </h4>
          {change.action === 'delete' ? null : <FieldList fields={change.fields} />}
        </li>
      ))}
    </ul>
  )
}
