import { type ColumnDataType, type CreateTableBuilder, type Kysely, sql } from 'kysely'
import type { Engine } from '../engine/schema.ts'

type DefaultRule = readonly [
  kind: string,
  name: string,
  numbers?: {
    readonly threshold?: number
    readonly window_seconds?: number
    readonly min_requests?: number
    readonly for_seconds?: number
  },
]

const DEFAULT_RULES: readonly DefaultRule[] = [
  ['channel_disabled', 'Channel auto-disabled'],
  ['key_disabled', 'Channel key auto-disabled'],
  ['error_rate', 'Error rate', { threshold: 20, window_seconds: 300, min_requests: 20, for_seconds: 60 }],
  [
    'rejection_rate',
    'Rejection rate',
    { threshold: 50, window_seconds: 300, min_requests: 20, for_seconds: 60 },
  ],
  ['balance_low', 'Low balance', { threshold: 1 }],
  ['balance_runway', 'Balance runway', { threshold: 24, window_seconds: 86_400 }],
  ['suspense_open', 'Unresolved charges', { threshold: 0 }],
  ['verify_failed', 'Verification failed'],
  ['disk_low', 'Low disk space', { threshold: 2_048 }],
  ['price_missing', 'Price missing'],
  ['key_expiring', 'Token expiring', { threshold: 168 }],
  ['journal_lag', 'Journal lag', { threshold: 30 }],
  ['worker_restarted', 'Worker restarted', { threshold: 1, window_seconds: 600 }],
]

/** Alert rules, the targets that messages are sent to, the state of each alert, and the queue of messages. */
export async function alerts(db: Kysely<unknown>, engine: Engine): Promise<void> {
  const whole: ColumnDataType = engine === 'sqlite' ? 'integer' : 'bigint'
  const table = <Name extends string>(name: Name) => db.schema.createTable(name)
  const withId = <Name extends string>(name: Name) =>
    table(name).addColumn('id', whole, column =>
      engine === 'sqlite'
        ? column.primaryKey().autoIncrement()
        : column.primaryKey().generatedAlwaysAsIdentity(),
    )
  const strict = <T extends string, C extends string>(builder: CreateTableBuilder<T, C>) =>
    engine === 'sqlite' ? builder.modifyEnd(sql`strict`).execute() : builder.execute()

  await strict(
    withId('alert_rules')
      .addColumn('name', 'text', column => column.notNull().unique())
      .addColumn('kind', 'text', column => column.notNull())
      .addColumn('enabled', whole, column => column.notNull())
      .addColumn('options', 'text', column => column.notNull())
      .addColumn('created_time', whole, column => column.notNull()),
  )
  await strict(
    withId('alert_targets')
      .addColumn('name', 'text', column => column.notNull().unique())
      .addColumn('type', 'text', column => column.notNull())
      .addColumn('enabled', whole, column => column.notNull())
      .addColumn('options', 'text', column => column.notNull())
      .addColumn('hints', 'text', column => column.notNull())
      .addColumn('sealed', 'text', column => column.notNull())
      .addColumn('created_time', whole, column => column.notNull()),
  )
  await strict(
    table('alert_states')
      .addColumn('rule_id', whole, column => column.notNull())
      .addColumn('subject', 'text', column => column.notNull())
      .addColumn('since', whole, column => column.notNull())
      .addColumn('fired_time', whole)
      .addColumn('cleared_time', whole)
      .addColumn('notified_time', whole)
      .addColumn('seen_time', whole, column => column.notNull())
      .addColumn('observed', 'text', column => column.notNull())
      .addPrimaryKeyConstraint('alert_states_key', ['rule_id', 'subject']),
  )
  await strict(
    withId('alert_deliveries')
      .addColumn('target_id', whole, column => column.notNull())
      .addColumn('status', 'text', column => column.notNull())
      .addColumn('notices', 'text', column => column.notNull())
      .addColumn('omitted', whole, column => column.notNull())
      .addColumn('created_time', whole, column => column.notNull())
      .addColumn('attempts', whole, column => column.notNull())
      .addColumn('next_time', whole, column => column.notNull())
      .addColumn('claimed_until', whole, column => column.notNull())
      .addColumn('ended_time', whole)
      .addColumn('last_error', 'text', column => column.notNull()),
  )
  await db.schema
    .createIndex('alert_deliveries_due')
    .on('alert_deliveries')
    .columns(['status', 'next_time'])
    .execute()
  await db.schema
    .createIndex('alert_deliveries_target')
    .on('alert_deliveries')
    .columns(['target_id', 'status', 'id'])
    .execute()
  await strict(
    table('alert_leases')
      .addColumn('name', 'text', column => column.primaryKey())
      .addColumn('holder', 'text', column => column.notNull())
      .addColumn('until_time', whole, column => column.notNull()),
  )
  await strict(
    table('setting_secrets')
      .addColumn('key', 'text', column => column.primaryKey())
      .addColumn('sealed', 'text', column => column.notNull()),
  )
  const now = Math.floor(Date.now() / 1000)
  for (const [kind, name, numbers] of DEFAULT_RULES) {
    const options = {
      threshold: null,
      window_seconds: null,
      min_requests: null,
      for_seconds: 0,
      repeat_seconds: 86_400,
      target_ids: null,
      subject_ids: [],
      quiet_from: null,
      quiet_to: null,
      time_zone: 'UTC',
      ...numbers,
    }
    await sql`insert into alert_rules (name, kind, enabled, options, created_time)
      values (${name}, ${kind}, 1, ${JSON.stringify(options)}, ${now})`.execute(db)
  }
}
