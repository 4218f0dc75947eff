import { type ColumnDataType, type CreateTableBuilder, type Kysely, sql } from 'kysely'
import type { Engine } from '../engine/schema.ts'

/** Users, credentials, channels, prices, and the ledger. */
export async function foundation(db: Kysely<unknown>, engine: Engine): Promise<void> {
  const whole: ColumnDataType = engine === 'sqlite' ? 'integer' : 'bigint'

  const table = <Name extends string>(name: Name) => db.schema.createTable(name)
  // Ids are never reused: AUTOINCREMENT, or a sequence.
  const withId = <Name extends string>(name: Name) =>
    table(name).addColumn('id', whole, column =>
      engine === 'sqlite'
        ? column.primaryKey().autoIncrement()
        : column.primaryKey().generatedAlwaysAsIdentity(),
    )
  const strict = <T extends string, C extends string>(builder: CreateTableBuilder<T, C>) =>
    engine === 'sqlite' ? builder.modifyEnd(sql`strict`).execute() : builder.execute()

  await strict(
    table('meta')
      .addColumn('key', 'text', column => column.primaryKey())
      .addColumn('value', 'text', column => column.notNull()),
  )

  await strict(
    withId('users')
      .addColumn('username', 'text', column => column.notNull())
      .addColumn('username_key', 'text', column => column.notNull())
      .addColumn('display_name', 'text', column => column.notNull())
      .addColumn('email', 'text', column => column.notNull())
      .addColumn('search', 'text', column => column.notNull())
      .addColumn('password_hash', 'text', column => column.notNull())
      .addColumn('role', whole, column => column.notNull())
      .addColumn('status', whole, column => column.notNull())
      .addColumn('user_group', 'text', column => column.notNull())
      .addColumn('limits', 'text', column => column.notNull())
      .addColumn('created_time', whole, column => column.notNull())
      .addColumn('last_login_time', whole, column => column.notNull())
      .addColumn('deleted_time', whole),
  )
  // The name of a deleted user can be used again.
  await db.schema
    .createIndex('users_username')
    .unique()
    .on('users')
    .column('username_key')
    .where(sql.ref('deleted_time'), 'is', null)
    .execute()
  // A narrow index for counts and pages; the wide one below is for searches.
  if (engine === 'postgres')
    await db.schema
      .createIndex('users_live_ids')
      .on('users')
      .column('id')
      .where(sql.ref('deleted_time'), 'is', null)
      .execute()
  await db.schema
    .createIndex('users_live')
    .on('users')
    .columns(['id', 'search'])
    .where(sql.ref('deleted_time'), 'is', null)
    .execute()

  await strict(
    table('accounts')
      .addColumn('kind', 'text', column => column.notNull())
      .addColumn('owner_id', whole, column => column.notNull())
      .addColumn('unlimited', whole, column => column.notNull())
      .addColumn('credited', whole, column => column.notNull())
      .addColumn('posted', whole, column => column.notNull())
      .addColumn('held', whole, column => column.notNull())
      .addColumn('request_count', whole, column => column.notNull())
      .addPrimaryKeyConstraint('accounts_key', ['kind', 'owner_id'])
      .addCheckConstraint('accounts_held', sql`held >= 0`),
  )

  await strict(
    table('entries')
      .addColumn('chain', 'text', column => column.notNull())
      .addColumn('seq', whole, column => column.notNull())
      .addColumn('time', whole, column => column.notNull())
      .addColumn('kind', 'text', column => column.notNull())
      .addColumn('user_id', whole, column => column.notNull())
      .addColumn('token_id', whole)
      .addColumn('channel_id', whole)
      .addColumn('amount', whole, column => column.notNull())
      .addColumn('actor', 'text', column => column.notNull())
      .addColumn('reason', 'text', column => column.notNull())
      .addColumn('request_id', 'text')
      .addColumn('hash', 'text', column => column.notNull())
      .addPrimaryKeyConstraint('entries_key', ['chain', 'seq']),
  )
  await db.schema.createIndex('entries_user').on('entries').columns(['user_id', 'time']).execute()

  await strict(
    table('chains')
      .addColumn('name', 'text', column => column.primaryKey())
      .addColumn('seq', whole, column => column.notNull())
      .addColumn('hash', 'text', column => column.notNull()),
  )

  await strict(
    withId('tokens')
      .addColumn('user_id', whole, column => column.notNull().references('users.id'))
      .addColumn('name', 'text', column => column.notNull())
      .addColumn('search', 'text', column => column.notNull())
      .addColumn('key_digest', 'text', column => column.notNull().unique())
      .addColumn('key_sealed', 'text', column => column.notNull())
      .addColumn('key_hint', 'text', column => column.notNull())
      .addColumn('status', whole, column => column.notNull())
      .addColumn('created_time', whole, column => column.notNull())
      .addColumn('accessed_time', whole, column => column.notNull())
      .addColumn('expired_time', whole, column => column.notNull())
      .addColumn('model_limits_enabled', whole, column => column.notNull())
      .addColumn('models', 'text', column => column.notNull())
      .addColumn('allow_ips', 'text', column => column.notNull())
      .addColumn('token_group', 'text', column => column.notNull())
      .addColumn('limits', 'text', column => column.notNull()),
  )
  await db.schema.createIndex('tokens_user').on('tokens').columns(['user_id', 'id', 'search']).execute()

  await strict(
    withId('access_tokens')
      .addColumn('user_id', whole, column => column.notNull().references('users.id'))
      .addColumn('name', 'text', column => column.notNull())
      .addColumn('digest', 'text', column => column.notNull().unique())
      .addColumn('hint', 'text', column => column.notNull())
      .addColumn('created_time', whole, column => column.notNull())
      .addColumn('expired_time', whole, column => column.notNull())
      .addColumn('last_used_time', whole, column => column.notNull()),
  )
  await db.schema.createIndex('access_tokens_user').on('access_tokens').columns(['user_id', 'id']).execute()

  await strict(
    withId('sessions')
      .addColumn('user_id', whole, column => column.notNull().references('users.id'))
      .addColumn('digest', 'text', column => column.notNull().unique())
      .addColumn('address', 'text', column => column.notNull())
      .addColumn('user_agent', 'text', column => column.notNull())
      .addColumn('created_time', whole, column => column.notNull())
      .addColumn('last_seen_time', whole, column => column.notNull())
      .addColumn('ended_time', whole),
  )
  await db.schema.createIndex('sessions_user').on('sessions').columns(['user_id', 'id']).execute()

  // Long columns come last, so that the columns of filters and sorts are read without skipping them.
  await strict(
    withId('channels')
      .addColumn('type', whole, column => column.notNull())
      .addColumn('status', whole, column => column.notNull())
      .addColumn('priority', whole, column => column.notNull())
      .addColumn('weight', whole, column => column.notNull())
      .addColumn('auto_ban', whole, column => column.notNull())
      .addColumn('is_multi', whole, column => column.notNull())
      .addColumn('created_time', whole, column => column.notNull())
      .addColumn('test_time', whole, column => column.notNull())
      .addColumn('response_time', whole, column => column.notNull())
      .addColumn('used', whole, column => column.notNull())
      .addColumn('tag', 'text')
      .addColumn('channel_group', 'text', column => column.notNull())
      .addColumn('search', 'text', column => column.notNull())
      .addColumn('name', 'text', column => column.notNull())
      .addColumn('base_url', 'text', column => column.notNull())
      .addColumn('status_reason', 'text', column => column.notNull())
      .addColumn('test_model', 'text', column => column.notNull())
      .addColumn('openai_organization', 'text', column => column.notNull())
      .addColumn('remark', 'text', column => column.notNull())
      .addColumn('limits', 'text', column => column.notNull())
      .addColumn('other', 'text', column => column.notNull())
      .addColumn('status_code_mapping', 'text', column => column.notNull())
      .addColumn('header_override', 'text', column => column.notNull())
      .addColumn('param_override', 'text', column => column.notNull())
      .addColumn('setting', 'text', column => column.notNull())
      .addColumn('model_mapping', 'text', column => column.notNull())
      .addColumn('models', 'text', column => column.notNull()),
  )
  // SQLite stores long texts inside the rows, so lists are read from an index with every column they filter and sort by.
  // PostgreSQL stores long texts separately, and limits the size of an index row.
  const listed = ['priority', 'id']
  const filtered = ['type', 'status', 'tag', 'channel_group', 'search', 'response_time', 'test_time']
  await db.schema
    .createIndex('channels_list')
    .on('channels')
    .columns(engine === 'sqlite' ? [...listed, ...filtered] : listed)
    .execute()
  await db.schema.createIndex('channels_tag').on('channels').columns(['tag', 'id']).execute()

  await strict(
    withId('channel_keys')
      .addColumn('channel_id', whole, column =>
        column.notNull().references('channels.id').onDelete('cascade'),
      )
      .addColumn('position', whole, column => column.notNull())
      .addColumn('digest', 'text', column => column.notNull())
      .addColumn('sealed', 'text', column => column.notNull())
      .addColumn('hint', 'text', column => column.notNull())
      .addColumn('status', whole, column => column.notNull())
      .addColumn('reason', 'text', column => column.notNull())
      .addColumn('disabled_time', whole, column => column.notNull()),
  )
  await db.schema
    .createIndex('channel_keys_channel')
    .on('channel_keys')
    .columns(['channel_id', 'position'])
    .execute()
  await db.schema.createIndex('channel_keys_digest').on('channel_keys').column('digest').execute()

  await strict(
    table('channel_models')
      .addColumn('channel_id', whole, column =>
        column.notNull().references('channels.id').onDelete('cascade'),
      )
      .addColumn('model', 'text', column => column.notNull())
      .addPrimaryKeyConstraint('channel_models_key', ['channel_id', 'model']),
  )
  await db.schema
    .createIndex('channel_models_model')
    .on('channel_models')
    .columns(['model', 'channel_id'])
    .execute()

  await strict(
    withId('aliases')
      .addColumn('name', 'text', column => column.notNull().unique())
      .addColumn('target', 'text', column => column.notNull())
      .addColumn('channel_ids', 'text')
      .addColumn('status', whole, column => column.notNull())
      .addColumn('search', 'text', column => column.notNull())
      .addColumn('created_time', whole, column => column.notNull()),
  )

  await strict(
    table('settings')
      .addColumn('key', 'text', column => column.primaryKey())
      .addColumn('value', 'text', column => column.notNull())
      .addColumn('updated_time', whole, column => column.notNull())
      .addColumn('author_id', whole, column => column.notNull()),
  )

  await strict(
    withId('prices')
      .addColumn('model', 'text', column => column.notNull())
      .addColumn('search', 'text', column => column.notNull())
      .addColumn('version', whole, column => column.notNull())
      .addColumn('price', 'text', column => column.notNull())
      .addColumn('effective_time', whole, column => column.notNull())
      .addColumn('created_time', whole, column => column.notNull())
      .addColumn('author_id', whole, column => column.notNull())
      .addColumn('ended_time', whole)
      .addUniqueConstraint('prices_version', ['model', 'version']),
  )
  // Finds a model's version in force without reading ended versions.
  await db.schema
    .createIndex('prices_live')
    .on('prices')
    .columns(['model', 'effective_time', 'version'])
    .where(sql.ref('ended_time'), 'is', null)
    .execute()

  await strict(
    withId('logs')
      .addColumn('created_time', whole, column => column.notNull())
      .addColumn('type', whole, column => column.notNull())
      .addColumn('user_id', whole, column => column.notNull())
      .addColumn('token_id', whole, column => column.notNull())
      .addColumn('token_name', 'text', column => column.notNull())
      .addColumn('channel_id', whole, column => column.notNull())
      .addColumn('model_name', 'text', column => column.notNull())
      .addColumn('content', 'text', column => column.notNull())
      .addColumn('cost', whole, column => column.notNull())
      .addColumn('prompt_tokens', whole, column => column.notNull())
      .addColumn('completion_tokens', whole, column => column.notNull())
      .addColumn('use_time_ms', whole, column => column.notNull())
      .addColumn('is_stream', whole, column => column.notNull())
      .addColumn('address', 'text', column => column.notNull())
      .addColumn('request_id', 'text', column => column.notNull())
      .addColumn('upstream_request_id', 'text', column => column.notNull().defaultTo(''))
      .addColumn('other', 'text', column => column.notNull()),
  )
  // Every filter of the log scans an index from its newest row; sums by time or user read only the index.
  await db.schema
    .createIndex('logs_time')
    .on('logs')
    .columns(['created_time', 'id', 'type', 'cost'])
    .execute()
  await db.schema
    .createIndex('logs_user')
    .on('logs')
    .columns(['user_id', 'created_time', 'id', 'type', 'cost', 'model_name', 'token_name'])
    .execute()
  for (const column of ['token_id', 'token_name', 'model_name', 'channel_id'])
    await db.schema.createIndex(`logs_${column}`).on('logs').columns([column, 'created_time', 'id']).execute()
  await db.schema.createIndex('logs_request').on('logs').column('request_id').execute()
  // Nearly all rows are requests, which the index by time serves: only the rare types need an index of their own.
  await db.schema
    .createIndex('logs_rare')
    .on('logs')
    .columns(['type', 'created_time', 'id'])
    .where(sql.ref('type'), '<>', sql.lit(2))
    .execute()

  await strict(
    table('audit')
      .addColumn('seq', whole, column => column.primaryKey())
      .addColumn('time', whole, column => column.notNull())
      .addColumn('actor_id', whole, column => column.notNull())
      .addColumn('actor_name', 'text', column => column.notNull())
      .addColumn('via', 'text', column => column.notNull())
      .addColumn('address', 'text', column => column.notNull())
      .addColumn('request_id', 'text', column => column.notNull())
      .addColumn('action', 'text', column => column.notNull())
      .addColumn('target', 'text', column => column.notNull())
      .addColumn('before', 'text')
      .addColumn('after', 'text')
      .addColumn('hash', 'text', column => column.notNull()),
  )
  await db.schema.createIndex('audit_actor').on('audit').columns(['actor_id', 'seq']).execute()

  await strict(
    table('idempotency')
      .addColumn('user_id', whole, column => column.notNull())
      .addColumn('path', 'text', column => column.notNull())
      .addColumn('key', 'text', column => column.notNull())
      .addColumn('body_digest', 'text', column => column.notNull())
      .addColumn('answer_sealed', 'text', column => column.notNull())
      .addColumn('created_time', whole, column => column.notNull())
      .addPrimaryKeyConstraint('idempotency_key', ['user_id', 'path', 'key']),
  )
  await db.schema.createIndex('idempotency_time').on('idempotency').column('created_time').execute()
}
