/** What the figures of the contract mean, for whoever reads it: the console takes these from here. */
export { CHANNEL_NAME_LENGTH, CHANNEL_STATUS } from '../../domain/channel.ts'
export { UNITS_PER_USD } from '../../domain/money.ts'
export { RATES, TOKEN_RATES, TOOLS_ALONE, UNIT_RATES } from '../../domain/rate.ts'
export { ROLE } from '../../domain/role.ts'

/** The client library that speaks the relay's own format, as programs name it: its package and its class. */
export const COMMON_SDK = { package: 'openai', client: 'OpenAI' } as const
