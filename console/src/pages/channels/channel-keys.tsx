import { Eye, EyeOff } from 'lucide-react'
import { useEffect, useState } from 'react'
import { useTranslation } from 'react-i18next'
import type { Channel } from '../../api/contract.ts'
import { useAct } from '../../api/query.ts'
import { useIsRoot } from '../../api/self.ts'
import { Button } from '../../look/button.tsx'
import { Confirm } from '../../look/confirm.tsx'
import { CopyButton } from '../../look/copy.tsx'
import { Gate, type GateState } from '../../look/gate.tsx'
import { Section } from '../../look/panel.tsx'
import { useFaultWords } from '../../look/states.tsx'
import { Said } from '../../texts/said.tsx'

const SHOWN_MS = 60_000
const STATES: Readonly<Record<number, GateState>> = { 1: 'on', 2: 'off', 3: 'stopped' }

/** The whole key, for Root: recorded when it is asked for, gone after a minute or when the window loses sight. */
function RevealedKey({ id }: { readonly id: number }) {
  const { t } = useTranslation()
  const words = useFaultWords()
  const reveal = useAct('revealChannelKey')
  const [key, setKey] = useState<string>()
  useEffect(() => {
    if (key === undefined) return
    const hide = () => setKey(undefined)
    const timer = setTimeout(hide, SHOWN_MS)
    addEventListener('blur', hide)
    return () => {
      clearTimeout(timer)
      removeEventListener('blur', hide)
    }
  }, [key])
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
            // Nothing of a secret stays behind in a cache.
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

export function ChannelKeys({ channel }: { readonly channel: Channel }) {
  const { t } = useTranslation()
  const isRoot = useIsRoot()
  const setStatus = useAct('setChannelKeyStatus')
  const remove = useAct('deleteChannelKey')
  const [deleting, setDeleting] = useState<number>()
  const hasSeveral = channel.keys.length > 1
  return (
    <Section title={`${t('channels.keys')} (${channel.keys.length})`}>
      <ul className="flex flex-col divide-y divide-line">
        {channel.keys.map(({ index, key, status, reason }) => (
          <li key={index} className="flex flex-wrap items-center gap-3 py-1.5">
            <code className="font-mono text-code break-all">{key || '–'}</code>
            <Gate state={STATES[status] ?? 'off'} />
            {reason ? (
              <span className="text-label text-bad">
                <Said text={reason} />
              </span>
            ) : null}
            {hasSeveral ? (
              <span className="ml-auto flex gap-1">
                <Button
                  isSmall
                  onClick={() =>
                    setStatus.mutate({
                      params: { id: channel.id, index },
                      body: { status: status === 1 ? 2 : 1 },
                    })
                  }
                >
                  {status === 1 ? t('channels.turn_off') : t('channels.turn_on')}
                </Button>
                <Button isSmall onClick={() => setDeleting(index)}>
                  {t('common.delete')}
                </Button>
              </span>
            ) : null}
          </li>
        ))}
      </ul>
      {isRoot ? <RevealedKey id={channel.id} /> : null}
      {deleting === undefined ? null : (
        <Confirm
          title={t('channels.delete_key', { number: deleting + 1 })}
          effect={t('channels.delete_key_effect')}
          verb={t('common.delete')}
          onClose={() => setDeleting(undefined)}
          onConfirm={() => remove.mutateAsync({ params: { id: channel.id, index: deleting } })}
        />
      )}
    </Section>
  )
}
