import { UnreachableError } from '../../domain/errors.ts'

/** PostgreSQL: insufficient_privilege. */
const INSUFFICIENT_PRIVILEGE = '42501'

/** Why a PostgreSQL database cannot be used, if this error is a fault of its address or rights and not of the program. */
export function unusableDatabase(error: unknown): string | undefined {
  const { code, message } = error as { code?: unknown; message: string }
  if (error instanceof UnreachableError) return message
  if (code !== INSUFFICIENT_PRIVILEGE) return undefined
  return `${message}. The user in the URL must own the database: ALTER DATABASE … OWNER TO …`
}
