import { useTranslation } from 'react-i18next'
import { useSavingForm, validateBody } from '../../api/form.ts'
import { useRouteMutation } from '../../api/query.ts'
import { AmountInput, Choice, Field, TextArea, TextInput } from '../../look/field.tsx'
import { FormDialog } from '../../look/form-dialog.tsx'
import { toast } from '../../look/toast.tsx'

const KINDS = ['channel', 'alias', 'price'] as const
type Kind = (typeof KINDS)[number]
type Values = {
  kind: Kind
  subject: string
  changes: string
  share: string
  split_by: 'request' | 'token'
  token_ids: string
  note: string
}

const EXAMPLES = {
  channel: '{"weight": 5}',
  alias: '{"target": "gpt-5-mini"}',
  price: '{"input": 3, "output": 12}',
} as const

const idsOf = (text: string) =>
  text
    .split(/[\s,#]+/)
    .filter(part => part !== '')
    .map(Number)

/** The error of the schema names the field if the text is not an object. */
function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

/** Starts a canary or a shadow price. */
export function StartDialog({ onClose }: { readonly onClose: () => void }) {
  const { t } = useTranslation()
  const start = useRouteMutation('startCanary')
  const { form, submit, errorOf, isBusy, fault } = useSavingForm<Values>({
    defaults: {
      kind: 'channel',
      subject: '',
      changes: '',
      share: '10',
      split_by: 'request',
      token_ids: '',
      note: '',
    },
    names: { channel_id: 'subject', alias_id: 'subject', model: 'subject' },
    save: async ({ kind, subject, changes, share, split_by, token_ids, note }) => {
      const id = Number(subject.replace('#', '').trim())
      const ids = idsOf(token_ids)
      const body = {
        kind,
        ...(kind === 'channel' && { channel_id: id }),
        ...(kind === 'alias' && { alias_id: id }),
        ...(kind === 'price' && { model: subject }),
        changes: parse(changes) as Record<string, unknown>,
        ...(kind !== 'price' && {
          share: Number(share),
          split_by,
          ...(ids.length > 0 && { token_ids: ids }),
        }),
        note,
      }
      await validateBody('startCanary', body)
      const { name } = await start.mutateAsync({ body })
      toast(t('canaries.started', { name }))
      onClose()
    },
  })
  const kind = form.watch('kind')
  return (
    <FormDialog
      title={t('canaries.start')}
      verb={t('canaries.start_verb')}
      isBusy={isBusy}
      fault={fault}
      onSubmit={submit}
      onClose={onClose}
    >
      <Field label={t('canaries.kind')} help={t(`canaries.kind_help.${kind}`)}>
        {wiring => (
          <Choice {...wiring} {...form.register('kind')}>
            {KINDS.map(each => (
              <option key={each} value={each}>
                {t(`canaries.kinds.${each}`)}
              </option>
            ))}
          </Choice>
        )}
      </Field>
      <Field label={t(`canaries.subject.${kind}`)} error={errorOf('subject')}>
        {wiring => (
          <TextInput {...wiring} {...form.register('subject')} className="font-mono" autoComplete="off" />
        )}
      </Field>
      <Field label={t('canaries.changes')} error={errorOf('changes')} help={t('canaries.changes_help')}>
        {wiring => (
          <TextArea
            {...wiring}
            {...form.register('changes')}
            rows={4}
            className="font-mono text-code"
            placeholder={EXAMPLES[kind]}
          />
        )}
      </Field>
      {kind === 'price' ? null : (
        <>
          <Field label={t('canaries.share')} error={errorOf('share')} help={t('canaries.share_help')}>
            {wiring => <AmountInput {...wiring} {...form.register('share')} inputMode="decimal" />}
          </Field>
          <Field label={t('canaries.split_by')} error={errorOf('split_by')}>
            {wiring => (
              <Choice {...wiring} {...form.register('split_by')}>
                <option value="request">{t('canaries.split.request')}</option>
                <option value="token">{t('canaries.split.token')}</option>
              </Choice>
            )}
          </Field>
          <Field label={t('canaries.tokens')} error={errorOf('token_ids')} help={t('canaries.tokens_help')}>
            {wiring => (
              <TextInput
                {...wiring}
                {...form.register('token_ids')}
                placeholder={t('canaries.all_tokens')}
                autoComplete="off"
              />
            )}
          </Field>
        </>
      )}
      <Field label={t('canaries.note')} error={errorOf('note')}>
        {wiring => <TextInput {...wiring} {...form.register('note')} maxLength={200} />}
      </Field>
    </FormDialog>
  )
}
