import { type SourceDatabase, SourceError } from './database.ts'
import { openMysqlSource, readMysqlAddress } from './mysql.ts'
import { openPostgresSource } from './postgres.ts'
import { openSqliteSource } from './sqlite.ts'

/** Opens the database that `--from` names: a file, or the URL of a server. */
export async function openSource(from: string): Promise<SourceDatabase> {
  if (/^postgres(ql)?:\/\//i.test(from)) {
    if (!URL.canParse(from)) throw new SourceError('--from is not a valid PostgreSQL URL')
    return openPostgresSource(from)
  }
  const mysql = readMysqlAddress(from)
  if (mysql) return openMysqlSource(mysql)
  if (/^[a-z][a-z0-9+.-]*:\/\//i.test(from))
    throw new SourceError(
      '--from must be an SQLite file, or a valid URL that begins with mysql:// or postgres://',
    )
  return openSqliteSource(from)
}
