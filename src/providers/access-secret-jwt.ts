import { createHmac } from 'node:crypto'
import type { CreateTokens } from './provider.ts'

const LIFETIME_S = 1_800
const CLOCK_SKEW_S = 5

const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')

/** A short-lived HS256 token, signed with the secret half of `access|secret`. The access key is its issuer. */
function signToken(key: string, nowS: number): string {
  const [access = '', secret = ''] = key.split('|')
  const claims = { iss: access.trim(), exp: nowS + LIFETIME_S, nbf: nowS - CLOCK_SKEW_S }
  const text = `${encode({ alg: 'HS256', typ: 'JWT' })}.${encode(claims)}`
  return `${text}.${createHmac('sha256', secret.trim()).update(text).digest('base64url')}`
}

export const accessSecretTokens: CreateTokens = ({ nowMs }) => ({
  tokenFor: async key => signToken(key, Math.floor(nowMs() / 1000)),
  forget() {},
})
