/** Permission levels, by the numbers that existing clients know (docs/reference/management-api.md: Permission levels). */
export const ROLE = { user: 1, admin: 10, root: 100 } as const
export type RoleName = keyof typeof ROLE
export type Role = (typeof ROLE)[RoleName]

const NAMES: Readonly<Record<Role, string>> = { 1: 'User', 10: 'Admin', 100: 'Root' }
export const roleName = (role: Role) => NAMES[role]

/** A user may act only on users with a lower role. */
export const outranks = (actor: Role, target: Role) => actor > target

/** Administrators and Root see the data of other users. */
export const isAdmin = ({ role }: { readonly role: Role }) => role >= ROLE.admin
