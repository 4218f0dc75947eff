import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { call } from '../../api/client.ts'
import type { Channel, ChannelHealth } from '../../api/contract.ts'
import { mapConcurrently } from '../../api/map-concurrently.ts'
import { useRouteMutation } from '../../api/query.ts'
import { useIsRoot } from '../../api/self.ts'
import { Button } from '../../look/button.tsx'
import { Confirm } from '../../look/confirm.tsx'
import { CooldownBadge } from '../../look/cooldown.tsx'
import { CopyButton } from '../../look/copy.tsx'
import { Field, TextArea } from '../../look/field.tsx'
import { Activity, Eye, EyeOff } from '../../look/icons.ts'
import { Moment } from '../../look/moment.tsx'
import { Section } from '../../look/panel.tsx'
import { useErrorText } from '../../look/states.tsx'
import { StatusBadge, type StatusName } from '../../look/status-badge.tsx'
import { toast } from '../../look/toast.tsx'
import { useAction } from '../../look/use-action.ts'
import { useRevealedSecret } from '../../look/use-revealed-secret.ts'
import { GatewayText } from '../../texts/gateway-text.tsx'
import { type TestOutcome, TestResultText } from './channel-test.tsx'

const STATES: Readonly<Record<number, StatusName>> = { 1: 'enabled', 2: 'disabled', 3: 'auto_disabled' }

/** The full key, for Root. Revealing it is audited. */
function RevealedKey({ id }: { readonly id: number }) {
  const { t } = useTranslation()
  const words = useErrorText()
  const reveal = useRouteMutation('revealChannelKey')
  const [key, setKey] = useRevealedSecret()
  return (
    <div className="flex flex-col gap-2">
      <div className="flex flex-wrap gap-2">
        <Button
          icon={key === undefined ? Eye : EyeOff}
          isBusy={reveal.isPending}
          onClick={async () => {
            if (key !== undefined) return setKey(undefined)
            const answer = await reveal.mutateAsync({ params: { id } }).catch(() => undefined)
            setKey(answer?.key)
            // Remove the secret from the query cache.
            if (answer) reveal.reset()
          }}
        >
          {key === undefined ? t('reveal.show') : t('reveal.hide')}
        </Button>
        {key === undefined ? null : <CopyButton text={key} />}
      </div>
      {reveal.error ? <p className="text-bad">{words(reveal.error)}</p> : null}
      {key === undefined ? null : (
        <pre className="overflow-x-auto rounded-control bg-sunken p-2 font-mono text-code break-all whitespace-pre-wrap">
          {key}
        </pre>
      )}
      <p className="text-label text-ink-3">{t('reveal.recorded')}</p>
    </div>
  )
}

/** Adds keys to a channel, one per line. The gateway skips duplicates. */
function MoreKeys({ id }: { readonly id: number }) {
  const { t } = useTranslation()
  const words = useErrorText()
  const update = useRouteMutation('updateChannel')
  const [text, setText] = useState('')
  const add = async () => {
    const saved = await update
      .mutateAsync({ body: { id, key: text, key_mode: 'append' } })
      .catch(() => undefined)
    if (!saved) return
    setText('')
    toast(t('editor.saved', { name: saved.name }))
  }
  return (
    <details>
      <summary className="font-medium">{t('channels.more_keys')}</summary>
      <div className="flex flex-col items-start gap-2 pt-3">
        <Field
          label={t('channels.new_keys')}
          error={update.error ? words(update.error) : undefined}
          className="w-full"
        >
          {wiring => (
            <TextArea
              {...wiring}
              rows={3}
              spellCheck={false}
              autoComplete="off"
              className="font-mono text-code"
              value={text}
              onChange={event => setText(event.target.value)}
            />
          )}
        </Field>
        <Button isBusy={update.isPending} disabled={text.trim() === ''} onClick={() => void add()}>
          {t('common.add')}
        </Button>
      </div>
    </details>
  )
}

type KeyTest = 'running' | TestOutcome

/** Tests of single keys, also disabled ones. The result shows next to the key. */
function useKeyTests(id: number) {
  const words = useErrorText()
  const client = useQueryClient()
  const [tests, setTests] = useState<ReadonlyMap<number, KeyTest>>(new Map())
  const set = (index: number, state: KeyTest) => setTests(before => new Map(before).set(index, state))
  const test = async (index: number) => {
    set(index, 'running')
    const query = { key: index }
    const outcome: TestOutcome = await call('testChannel', { params: { id }, query }).catch(error => ({
      success: false as const,
      message: words(error),
    }))
    set(index, outcome)
  }
  return {
    of: (index: number) => tests.get(index),
    isRunning: [...tests.values()].includes('running'),
    run: async (indexes: readonly number[]) => {
      await mapConcurrently(indexes, test)
      // A successful test enables an auto-disabled key again.
      await client.invalidateQueries()
    },
  }
}

type ChannelKeysProps = { readonly channel: Channel; readonly health: ChannelHealth | undefined }

export function ChannelKeys({ channel, health }: ChannelKeysProps) {
  const { t } = useTranslation()
  const isRoot = useIsRoot()
  const setStatus = useAction('setChannelKeyStatus')
  const remove = useRouteMutation('deleteChannelKey')
  const manage = useRouteMutation('manageChannelKeys')
  const tests = useKeyTests(channel.id)
  const [deleting, setDeleting] = useState<number | 'rejected'>()
  const { keys, id } = channel
  const hasSeveral = keys.length > 1
  const rejected = keys.filter(({ status }) => STATES[status] === 'auto_disabled')
  return (
    <Section title={`${t('channels.keys')} (${keys.length})`}>
      <ul className="flex flex-col divide-y divide-line">
        {keys.map(({ index, key, status, reason, disabled_time }) => {
          const tested = tests.of(index)
          const cooldown =
            status === 1 && channel.status === 1
              ? health?.keys.find(other => other.index === index)
              : undefined
          const fault = cooldown?.reason ?? reason
          return (
            <li key={index} className="flex flex-wrap items-center gap-x-3 gap-y-1 py-1.5">
              <code className="font-mono text-code break-all">{key || '–'}</code>
              {cooldown ? (
                <CooldownBadge until={cooldown.cooldown_until} />
              ) : (
                <StatusBadge state={STATES[status] ?? 'disabled'} />
              )}
              {hasSeveral ? (
                <span className="ml-auto flex gap-1">
                  <Button
                    isSmall
                    icon={Activity}
                    isBusy={tested === 'running'}
                    aria-label={t('test.key', { number: index + 1 })}
                    onClick={() => void tests.run([index])}
                  >
                    {t('test.verb')}
                  </Button>
                  <Button
                    isSmall
                    onClick={() =>
                      void setStatus.run({ params: { id, index }, body: { status: status === 1 ? 2 : 1 } })
                    }
                  >
                    {status === 1 ? t('channels.disable') : t('channels.enable')}
                  </Button>
                  <Button isSmall onClick={() => setDeleting(index)}>
                    {t('common.delete')}
                  </Button>
                </span>
              ) : null}
              {fault ? (
                <span className="w-full break-words text-label text-bad">
                  <GatewayText text={fault} />
                  {disabled_time > 0 ? (
                    <span className="text-ink-3">
                      {' · '}
                      <Moment at={disabled_time} />
                    </span>
                  ) : null}
                </span>
              ) : null}
              {tested === undefined || tested === 'running' ? null : (
                <span role="status" className="w-full text-label">
                  <TestResultText tested={tested} />
                </span>
              )}
            </li>
          )
        })}
      </ul>
      {hasSeveral ? (
        <div className="flex flex-wrap items-center gap-2">
          <Button
            icon={Activity}
            isBusy={tests.isRunning}
            onClick={() => void tests.run(keys.map(({ index }) => index))}
          >
            {t('test.each_key')}
          </Button>
          {rejected.length > 0 ? (
            <Button onClick={() => setDeleting('rejected')}>
              {t('channels.delete_rejected', { count: rejected.length })}
            </Button>
          ) : null}
          <span className="text-label text-ink-3">{t('test.free')}</span>
        </div>
      ) : null}
      {keys.length > 0 ? <MoreKeys id={id} /> : null}
      {isRoot ? <RevealedKey id={id} /> : null}
      {deleting === undefined ? null : (
        <Confirm
          title={
            deleting === 'rejected'
              ? t('channels.delete_rejected', { count: rejected.length })
              : t('channels.delete_key', { number: deleting + 1 })
          }
          effect={t('channels.delete_key_effect')}
          verb={t('common.delete')}
          onClose={() => setDeleting(undefined)}
          onConfirm={() =>
            deleting === 'rejected'
              ? manage.mutateAsync({ body: { channel_id: id, action: 'delete_disabled_keys' } })
              : remove.mutateAsync({ params: { id, index: deleting } })
          }
        />
      )}
    </Section>
  )
}
