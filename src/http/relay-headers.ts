/**
 * On every answer of the relay. What a provider sends must never run as a page of this origin, where the console's session
 * lives: a browser that opens an answer treats it as a document of no origin, and believes the type that it names.
 */
export const RELAY_SECURITY = {
  'x-content-type-options': 'nosniff',
  'content-security-policy': "sandbox; default-src 'none'",
} as const
