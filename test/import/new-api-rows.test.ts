import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { readChannel } from '../../src/manage/import/new-api/channels.ts'
import { openNewApi } from '../../src/manage/import/new-api/gateway.ts'
import { createImportNotes } from '../../src/manage/import/notes.ts'
import type { SourceDatabase } from '../../src/manage/import/source/database.ts'

const CHANNEL = { id: 1, type: 1, key: 'k', status: 1, name: 'c', models: 'm' }

function reading(fields: object) {
  const notes = createImportNotes('new-api', true)
  const channel = readChannel({ ...CHANNEL, ...fields }, { variant: 'new-api', notes })
  return { channel, messages: notes.report().notes.map(({ message }) => message) }
}

describe('a channel of new-api', () => {
  it('has no status_code_mapping that is no valid JSON, and the report says so', () => {
    const { channel, messages } = reading({ status_code_mapping: '{"429":' })
    assert.equal(channel?.fields.status_code_mapping, undefined)
    assert.deepEqual(messages, ['its status_code_mapping is left out: it is no valid JSON object'])
    assert.deepEqual(reading({ status_code_mapping: '{"429":"503"}' }).messages, [])
  })

  it('keeps the first 255 characters of its remark, and no half of one', () => {
    const { channel } = reading({ remark: `a${'😀'.repeat(300)}` })
    assert.equal(channel?.fields.remark, `a${'😀'.repeat(254)}`)
  })
})

describe('usage rows of new-api', () => {
  it('are reported as missing if the logs are in another database', async () => {
    const database: SourceDatabase = {
      engine: 'sqlite',
      columnsOf: async table => new Set(table === 'logs' ? [] : ['id']),
      read: async () => [],
      close: async () => {},
    }
    const notes = createImportNotes('new-api', true)
    const gateway = await openNewApi({ database, variant: 'new-api', now: 0, notes })
    for await (const page of gateway.logs?.(undefined, 0) ?? []) assert.fail(`${page.length} rows`)
    const [note] = notes.report().notes
    assert.equal(note?.subject, 'table logs')
    assert.match(note?.message ?? '', /does not exist.*LOG_SQL_DSN/)
  })
})
