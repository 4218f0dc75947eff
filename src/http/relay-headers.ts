/**
 * Headers of every relay response. Content of a provider must never run as a page of this origin, which has the console's
 * session: the browser gives it an opaque origin and does not sniff its type.
 */
export const RELAY_SECURITY = {
  'x-content-type-options': 'nosniff',
  'content-security-policy': "sandbox; default-src 'none'",
} as const
