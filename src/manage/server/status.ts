import { UNITS_PER_USD } from '../../domain/money.ts'
import { readSettings } from '../../store/records/settings.ts'
import type { statusContract } from '../contract/status.ts'
import type { Handlers } from './call.ts'
import type { Deps } from './deps.ts'

const GROUPS = { default: { ratio: 1, desc: 'All users' } }

/** Public information about this gateway. Existing clients recognise it by these fields. */
export function createStatusHandlers({
  db,
  engine,
  version,
  resetCommand,
  startTime,
  basePath,
}: Deps): Handlers<typeof statusContract> {
  return {
    status: async () => {
      const { registration, allow_unpriced_models } = await readSettings(db)
      return {
        version,
        reset_command: resetCommand,
        system_name: 'Sluice',
        start_time: startTime,
        setup: true,
        server_address: '',
        logo: '',
        docs_link: `${basePath}/docs`,
        quota_per_unit: UNITS_PER_USD,
        display_in_currency: true,
        quota_display_type: 'USD',
        usd_exchange_rate: 1,
        price: 1,
        stripe_unit_price: 1,
        register_enabled: registration,
        password_login_enabled: true,
        email_verification: false,
        turnstile_check: false,
        checkin_enabled: false,
        passkey_login: false,
        github_oauth: false,
        oidc_enabled: false,
        self_use_mode_enabled: allow_unpriced_models,
        demo_site_enabled: false,
        announcements_enabled: false,
        announcements: [],
      }
    },
    setup: async () => ({ status: true, root_init: true, database_type: engine }),
    notice: async () => '',
    listGroups: async () => Object.keys(GROUPS),
    listOwnGroups: async () => GROUPS,
    listAllGroups: async () => GROUPS,
  }
}
