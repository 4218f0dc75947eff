import { Link, useNavigate, useParams } from '@tanstack/react-router'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import type { Channel } from '../../api/contract.ts'
import { useCall } from '../../api/query.ts'
import { Button } from '../../look/button.tsx'
import { Checkbox, Choice } from '../../look/field.tsx'
import { moneyOfOne, moneyOfSpan, moneyOfSum } from '../../look/format.ts'
import { HourlyChart } from '../../look/hourly-chart.tsx'
import { Pencil, Power, PowerOff } from '../../look/icons.ts'
import { Moment } from '../../look/moment.tsx'
import { Facts, Panel, Section } from '../../look/panel.tsx'
import { Part } from '../../look/states.tsx'
import { GatewayText } from '../../texts/gateway-text.tsx'
import { ChannelKeys } from './channel-keys.tsx'
import { ChannelMenu } from './channel-menu.tsx'
import { ChannelBadge, faultOf } from './channel-state.tsx'
import { LastTest, useTest } from './channel-test.tsx'
import { useTypes } from './channel-types.ts'
import { TestModels } from './test-models.tsx'
import { useChannelSwitch } from './use-channel-switch.ts'
import { useHealth } from './use-health.ts'

/** Tests the channel with a chosen model, streamed or not. */
function TestSection({ channel }: { readonly channel: Channel }) {
  const { t } = useTranslation()
  const { test, isRunning } = useTest()
  const [model, setModel] = useState('')
  const [isStream, setStream] = useState(false)
  const [isAll, setAll] = useState(false)
  return (
    <Section title={t('channels.test')}>
      <div className="flex flex-wrap items-center gap-2">
        <Choice
          aria-label={t('test.model')}
          className="max-w-60"
          value={model}
          onChange={event => setModel(event.target.value)}
        >
          <option value="">{channel.test_model || t('test.any_model')}</option>
          {channel.models.map(name => (
            <option key={name}>{name}</option>
          ))}
        </Choice>
        <Checkbox
          label={t('test.stream')}
          checked={isStream}
          onChange={event => setStream(event.target.checked)}
        />
        <Button
          kind="primary"
          isBusy={isRunning(channel.id)}
          onClick={() => void test(channel.id, { model: model || undefined, stream: isStream })}
        >
          {t('test.verb')}
        </Button>
        {channel.models.length > 1 ? (
          <Button onClick={() => setAll(true)}>{t('test.every_model')}</Button>
        ) : null}
      </div>
      {isAll ? <TestModels channel={channel} onClose={() => setAll(false)} /> : null}
      <p role="status">
        <LastTest channel={channel} />
      </p>
      <p className="text-label text-ink-3">{t('test.free')}</p>
    </Section>
  )
}

export function ChannelPanel() {
  const { t } = useTranslation()
  const navigate = useNavigate()
  const { id = '0' } = useParams({ strict: false })
  const result = useCall('getChannel', { params: { id } })
  const { byNumber } = useTypes()
  const turn = useChannelSwitch()
  const channel = result.data
  const channelHealth = useHealth().get(Number(id))
  const fault = channel ? faultOf({ channel, health: channelHealth }) : ''
  const close = () => void navigate({ to: '/channels', search: true })

  return (
    <Panel title={channel?.name ?? t('nav.channels')} onClose={close}>
      <Part result={result}>
        {channel ? (
          <>
            <div className="flex flex-wrap items-center gap-2 pb-4">
              <Button
                icon={channel.status === 1 ? PowerOff : Power}
                onClick={() => void turn(channel, channel.status !== 1)}
              >
                {channel.status === 1 ? t('channels.disable') : t('channels.enable')}
              </Button>
              <Button
                icon={Pencil}
                onClick={() => void navigate({ to: '/channels/$id/edit', params: { id }, search: true })}
              >
                {t('common.edit')}
              </Button>
              <ChannelMenu channel={channel} />
            </div>
            <Section title={t('channels.summary')}>
              <Facts
                facts={[
                  [t('channels.state'), <ChannelBadge key="gate" channel={channel} health={channelHealth} />],
                  ...(fault
                    ? ([
                        [
                          t('channels.reason'),
                          <span key="why" className="break-words text-bad">
                            <GatewayText text={fault} />
                          </span>,
                        ],
                      ] as const)
                    : []),
                  [t('channels.provider'), byNumber.get(channel.type)?.name ?? String(channel.type)],
                  [t('editor.base_url'), channel.base_url || t('editor.base_url_default')],
                  [t('channels.priority'), channel.priority],
                  [t('channels.weight'), channel.weight],
                  [t('editor.tag'), channel.tag ?? '–'],
                  [
                    t('channels.last_day'),
                    channelHealth ? (
                      <span key="day" className="flex items-center gap-3">
                        <HourlyChart
                          hours={channelHealth.hours}
                          words={t('channels.last_day_words', {
                            requests: channelHealth.requests,
                            failures: channelHealth.failures,
                          })}
                        />
                        {t('channels.last_day_words', {
                          requests: channelHealth.requests,
                          failures: channelHealth.failures,
                        })}
                      </span>
                    ) : (
                      '–'
                    ),
                  ],
                  [t('channels.spend'), moneyOfSpan(channel.used_quota)],
                  ...(Number(channel.vendor_cost) > 0
                    ? ([
                        [t('channels.vendor_cost'), moneyOfSum(channel.vendor_cost)],
                        [t('channels.vendor_cost_difference'), moneyOfOne(channel.vendor_cost_difference)],
                      ] as const)
                    : []),
                  [t('common.created'), <Moment key="made" at={channel.created_time} />],
                ]}
              />
              <p className="flex flex-wrap gap-4">
                <Link to="/" search={{ channel_id: channel.id }}>
                  {t('channels.usage_chart')}
                </Link>
                <Link to="/usage" search={{ channel: channel.id }}>
                  {t('channels.requests')}
                </Link>
                <Link to="/audit" search={{ target: `channel:${channel.id}` }}>
                  {t('channels.history')}
                </Link>
              </p>
            </Section>
            <TestSection key={`test ${channel.id}`} channel={channel} />
            <Section title={`${t('channels.models')} (${channel.models.length})`}>
              <ul className="flex max-h-52 flex-wrap gap-1.5 overflow-y-auto">
                {channel.models.map(model => (
                  <li key={model}>
                    <Link
                      to="/models"
                      search={{ tab: 'route', route: model }}
                      title={t('models.show_route')}
                      className="inline-block min-h-6 rounded-control bg-sunken px-2 py-0.5 font-mono text-code break-all text-ink no-underline"
                    >
                      {model}
                      {channel.model_mapping[model] ? ` → ${channel.model_mapping[model]}` : ''}
                    </Link>
                  </li>
                ))}
              </ul>
            </Section>
            <ChannelKeys key={`keys ${channel.id}`} channel={channel} health={channelHealth} />
          </>
        ) : null}
      </Part>
    </Panel>
  )
}
