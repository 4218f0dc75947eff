import { useTranslation } from 'react-i18next'
import { useContractForm } from '../../api/form.ts'
import { useSelf } from '../../api/self.ts'
import { Button } from '../../look/button.tsx'
import { Choice, Field, Switch, TextInput } from '../../look/field.tsx'
import { FormError } from '../../look/form-error.tsx'
import { moneyOfSpan } from '../../look/format.ts'
import { Moment } from '../../look/moment.tsx'
import { Page, Sheet } from '../../look/page.tsx'
import { Facts } from '../../look/panel.tsx'
import { DENSITIES, MOTIONS, setPreferences, THEMES, usePreferences } from '../../look/preferences.ts'
import { toast } from '../../look/toast.tsx'
import { zones } from '../../look/zone.ts'
import { speak } from '../../texts/index.ts'
import { roleText } from '../users/user-columns.tsx'
import { AccessTokens } from './access-tokens.tsx'
import { BodyLog } from './body-log.tsx'
import { DeleteAccount } from './delete-account.tsx'
import { PasswordForm } from './password-form.tsx'
import { Sessions } from './sessions.tsx'

function Profile() {
  const { t } = useTranslation()
  const self = useSelf()
  const { form, submit, errorOf, isBusy, fault } = useContractForm<'updateSelf', { display_name: string }>({
    route: 'updateSelf',
    defaults: { display_name: self.display_name },
    toInput: body => ({ body }),
    onDone: () => toast(t('me.saved')),
  })
  return (
    <Sheet title={t('me.profile')}>
      <div className="flex max-w-[640px] flex-col gap-4 p-4">
        <Facts
          facts={[
            [t('users.username'), self.username],
            [t('users.role'), roleText(t, self.role)],
            [t('users.balance'), self.unlimited_quota ? t('balance.none') : moneyOfSpan(self.quota)],
            [t('users.spend'), moneyOfSpan(self.used_quota)],
            [t('common.created'), <Moment key="made" at={self.created_time} />],
          ]}
        />
        <form className="flex flex-wrap items-end gap-2" onSubmit={event => void submit(event)}>
          <Field label={t('users.display_name')} error={errorOf('display_name')} className="grow">
            {wiring => <TextInput {...wiring} {...form.register('display_name')} autoComplete="name" />}
          </Field>
          <Button type="submit" isBusy={isBusy}>
            {t('common.save')}
          </Button>
          <FormError words={fault} />
        </form>
      </div>
    </Sheet>
  )
}

function Preferences() {
  const { t } = useTranslation()
  const { theme, density, language, motion, timeZone, singleKeys } = usePreferences()
  return (
    <Sheet title={t('me.preferences')}>
      <div className="grid max-w-[640px] gap-4 p-4 sm:grid-cols-3">
        <Field label={t('me.language')}>
          {wiring => (
            <Choice
              {...wiring}
              value={language}
              onChange={event => void speak(event.target.value as typeof language)}
            >
              <option value="en">English</option>
              <option value="zh-CN">简体中文</option>
            </Choice>
          )}
        </Field>
        <Field label={t('me.theme')}>
          {wiring => (
            <Choice
              {...wiring}
              value={theme}
              onChange={event => setPreferences({ theme: event.target.value as typeof theme })}
            >
              {THEMES.map(name => (
                <option key={name} value={name}>
                  {t(`me.themes.${name}`)}
                </option>
              ))}
            </Choice>
          )}
        </Field>
        <Field label={t('me.density')}>
          {wiring => (
            <Choice
              {...wiring}
              value={density}
              onChange={event => setPreferences({ density: event.target.value as typeof density })}
            >
              {DENSITIES.map(name => (
                <option key={name} value={name}>
                  {t(`me.densities.${name}`)}
                </option>
              ))}
            </Choice>
          )}
        </Field>
        <Field label={t('me.time_zone')} className="sm:col-span-2">
          {wiring => (
            <Choice
              {...wiring}
              value={timeZone ?? ''}
              onChange={event => setPreferences({ timeZone: event.target.value || null })}
            >
              <option value="">{t('me.zone_browser')}</option>
              {zones().map(name => (
                <option key={name}>{name}</option>
              ))}
            </Choice>
          )}
        </Field>
        <Field label={t('me.motion')}>
          {wiring => (
            <Choice
              {...wiring}
              value={motion}
              onChange={event => setPreferences({ motion: event.target.value as typeof motion })}
            >
              {MOTIONS.map(name => (
                <option key={name} value={name}>
                  {t(`me.motions.${name}`)}
                </option>
              ))}
            </Choice>
          )}
        </Field>
        <div className="sm:col-span-3">
          <Switch
            label={t('me.single_keys')}
            isOn={singleKeys}
            onChange={isOn => setPreferences({ singleKeys: isOn })}
          />
        </div>
      </div>
    </Sheet>
  )
}

export function PersonalSettings() {
  const { t } = useTranslation()
  return (
    <Page title={t('nav.me')}>
      <Profile />
      <Sheet title={t('me.security')}>
        <div className="divide-y divide-line">
          <AccessTokens />
          <PasswordForm />
          <Sessions />
          <DeleteAccount />
        </div>
      </Sheet>
      <BodyLog />
      <Preferences />
    </Page>
  )
}
