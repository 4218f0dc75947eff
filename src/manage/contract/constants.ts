/** Named constants of the contract, which the console uses too. */
export { CHANNEL_NAME_LENGTH, CHANNEL_STATUS } from '../../domain/channel.ts'
export { UNITS_PER_USD } from '../../domain/money.ts'
export { RATES, TOKEN_RATES, TOOLS_ALONE, UNIT_RATES } from '../../domain/rate.ts'
export { ROLE } from '../../domain/role.ts'

/** The package and class name of the client library for the relay's native format. */
export const COMMON_SDK = { package: 'openai', client: 'OpenAI' } as const
/** The same for the other chat format that has an SDK of its own. */
export const MESSAGES_SDK = { package: 'anthropic', client: 'Anthropic' } as const
