import { ROLE, type Role } from '../../../domain/role.ts'
import { isApiKey } from '../../../identity/credentials.ts'
import { isImportedHash } from '../../../identity/imported-hash.ts'
import type { SourceUser } from '../inventory.ts'
import type { ImportNotes } from '../notes.ts'
import { boundedOf, lineOf, quoted, type SourceRow, textOf, timeOf, wholeOf } from '../values.ts'
import { readAmount, type UnitScale } from './quota.ts'

export const USER_COLUMNS = [
  'username',
  'password',
  'display_name',
  'role',
  'status',
  'email',
  'quota',
  'group',
  'access_token',
  'created_at',
  'deleted_at',
] as const

const DELETED = 3n

const roleOf = (value: unknown): Role => {
  const number = boundedOf(value, 0, ROLE.root, ROLE.user)
  if (number >= ROLE.root) return ROLE.root
  return number >= ROLE.admin ? ROLE.admin : ROLE.user
}

/** Whether new-api has marked a row as deleted. */
export const isDeletedRow = (row: SourceRow): boolean => textOf(row.deleted_at).trim() !== ''

/** Why a value cannot be a system access token here. */
function accessTokenFault(value: string): string | undefined {
  if (isApiKey(value)) return 'begins with sk-'
  if (!/^[\x21-\x7e]{16,256}$/.test(value))
    return 'has fewer than 16 characters, or characters that a header cannot have'
  return undefined
}

/** A user; undefined for a deleted one. */
export function readUser(
  row: SourceRow,
  scale: UnitScale,
  { note }: Pick<ImportNotes, 'note'>,
): SourceUser | undefined {
  if (isDeletedRow(row) || wholeOf(row.status) === DELETED) return undefined
  const label = `user ${lineOf(row.id, 30)} ${quoted(row.username)}`
  const warn = (message: string) => note('user', label, message)
  const { change, ...amount } = readAmount(row.quota, scale)
  if (change) warn(change)
  const role = roleOf(row.role)
  if (role !== ROLE.user) warn(`is an administrator there, and becomes one here (role ${role})`)
  else if (wholeOf(row.role) !== BigInt(ROLE.user)) warn('has an unknown role; it becomes an ordinary user')
  const password = textOf(row.password).trim()
  const hasPassword = isImportedHash(password)
  if (!hasPassword)
    warn(
      'has no password that can be carried over; an administrator must set one before the user can sign in',
    )
  const accessToken = textOf(row.access_token).trim()
  const fault = accessToken === '' ? undefined : accessTokenFault(accessToken)
  if (fault) warn(`its system access token ${fault}; it is not carried over`)
  const createdTime = timeOf(row.created_at)
  return {
    sourceId: textOf(row.id),
    anchor: createdTime === 0 ? '' : String(createdTime),
    label,
    ...amount,
    name: textOf(row.username),
    displayName: lineOf(row.display_name, 64),
    email: lineOf(row.email, 254),
    passwordHash: hasPassword ? password : '',
    role,
    isEnabled: wholeOf(row.status) === 1n,
    group: lineOf(row.group, 64) || 'default',
    createdTime,
    accessToken: fault === undefined ? accessToken : '',
    limits: '{}',
  }
}
