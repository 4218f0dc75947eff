import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { contentOf, importInto, sqliteFile, withGateway } from '../../support/import-content.ts'
import { startMysql } from '../../support/mysql.ts'
import { contentFor } from '../../support/new-api-content.ts'
import { fillSource, NEW_API_TABLES } from '../../support/new-api-source.ts'
import { newGround, run, settingsOf } from '../../support/process.ts'
import { skipWithout } from '../../support/programs.ts'
import { writeMysql } from '../../support/source-database.ts'

const skip = skipWithout(import.meta.filename, 'mariadbd', 'mariadb-install-db', 'my_print_defaults')

describe('a database of new-api in MySQL', { skip }, () => {
  let mysql: Awaited<ReturnType<typeof startMysql>>
  before(async () => {
    mysql = await startMysql()
    const writer = await writeMysql(mysql.url)
    const content = contentFor('https://example.com')
    const isDate = (value: unknown) => typeof value === 'string' && /^\d{4}-\d\d-\d\d \d\d:/.test(value)
    // MySQL's times have no zone.
    const dated = Object.fromEntries(
      Object.entries(content).map(([table, rows]) => [
        table,
        rows.map(row =>
          Object.fromEntries(
            Object.entries(row).map(([name, value]) => [
              name,
              isDate(value) ? '2026-01-02 03:04:05.678' : value,
            ]),
          ),
        ),
      ]),
    )
    await fillSource(writer, NEW_API_TABLES, dated)
    await writer.close()
  })
  after(() => mysql?.stop())

  it('is imported like one in SQLite', async () => {
    const expected = await withGateway(async gateway => {
      await importInto(
        gateway,
        'new-api',
        await sqliteFile(NEW_API_TABLES, contentFor('https://example.com')),
      )
      return contentOf(gateway)
    })
    for (const url of [mysql.readerUrl, mysql.goUrl])
      await withGateway(async gateway => {
        await importInto(gateway, 'new-api', url)
        assert.deepEqual(await contentOf(gateway), expected)
      })
  })

  it('is read by the built program, and its URL may be in the environment', async () => {
    const env = { ...settingsOf(await newGround('sqlite')), SQL_DSN: mysql.goUrl }
    const { code, stdout, stderr } = await run(['import', 'new-api', '--from', 'env:SQL_DSN', '--json'], {
      env,
    })
    assert.equal(code, 0, stderr)
    assert.equal(JSON.parse(stdout).counts.users.created, 8)
    const unset = await run(['import', 'new-api', '--from', 'env:NOT_SET'], { env })
    assert.deepEqual([unset.code, /NOT_SET is not set/.test(unset.stderr)], [1, true])
  })

  it('is named without its password in errors', async () => {
    const wrong = mysql.readerUrl.replace('word', 'wrong')
    await withGateway(gateway =>
      assert.rejects(gateway.operations.importFrom({ kind: 'new-api', from: wrong, dryRun: true }), error => {
        assert.match((error as Error).message, /the MySQL database cannot be read/)
        assert.doesNotMatch((error as Error).message, /p@ss|wrong|%40/)
        return true
      }),
    )
  })
})
