import type { ChannelField } from './provider.ts'

/** A `base_url` with a hint of its own, for vendors with several addresses or none. */
export const baseUrlField = (help: string): ChannelField => ({ name: 'base_url', label: 'Base URL', help })
