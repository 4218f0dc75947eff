import type { ChannelField } from './provider.ts'

/** The field `base_url` with its own help, for vendors with several addresses or none. */
export const baseUrlField = (help: string): ChannelField => ({ name: 'base_url', label: 'Base URL', help })
