import { createHash } from 'node:crypto'
import pg from 'pg'

/** The tables of LiteLLM that an import reads, as its migrations create them. */
const SCHEMA = `
create table "LiteLLM_BudgetTable" (
  "budget_id" text primary key, "max_budget" double precision, "soft_budget" double precision,
  "max_parallel_requests" integer, "tpm_limit" bigint, "rpm_limit" bigint, "model_max_budget" jsonb,
  "budget_duration" text, "budget_reset_at" timestamp(3), "created_at" timestamp(3) default current_timestamp);
create table "LiteLLM_TeamTable" (
  "team_id" text primary key, "team_alias" text, "organization_id" text, "admins" text[], "members" text[],
  "members_with_roles" jsonb default '{}', "metadata" jsonb default '{}', "max_budget" double precision,
  "spend" double precision not null default 0, "models" text[], "max_parallel_requests" integer,
  "tpm_limit" bigint, "rpm_limit" bigint, "budget_duration" text, "budget_reset_at" timestamp(3),
  "blocked" boolean not null default false, "created_at" timestamp(3) default current_timestamp);
create table "LiteLLM_UserTable" (
  "user_id" text primary key, "user_alias" text, "team_id" text, "organization_id" text, "password" text,
  "teams" text[] default array[]::text[], "user_role" text, "max_budget" double precision,
  "spend" double precision not null default 0, "user_email" text, "models" text[], "metadata" jsonb default '{}',
  "max_parallel_requests" integer, "tpm_limit" bigint, "rpm_limit" bigint, "budget_duration" text,
  "budget_reset_at" timestamp(3), "created_at" timestamp(3) default current_timestamp);
create table "LiteLLM_VerificationToken" (
  "token" text primary key, "key_name" text, "key_alias" text, "soft_budget_cooldown" boolean default false,
  "spend" double precision not null default 0, "expires" timestamp(3), "models" text[], "aliases" jsonb default '{}',
  "config" jsonb default '{}', "user_id" text, "team_id" text, "permissions" jsonb default '{}',
  "max_parallel_requests" integer, "metadata" jsonb default '{}', "blocked" boolean, "tpm_limit" bigint,
  "rpm_limit" bigint, "max_budget" double precision, "budget_duration" text, "budget_reset_at" timestamp(3),
  "allowed_cache_controls" text[] default array[]::text[], "budget_id" text,
  "created_at" timestamp(3) default current_timestamp, "allowed_routes" text[] default array[]::text[],
  "model_max_budget" jsonb default '{}');
create table "LiteLLM_EndUserTable" (
  "user_id" text primary key, "alias" text, "spend" double precision not null default 0, "budget_id" text,
  "blocked" boolean not null default false);
create table "LiteLLM_ProxyModelTable" (
  "model_id" text primary key, "model_name" text not null, "litellm_params" jsonb not null, "model_info" jsonb,
  "created_at" timestamp(3) default current_timestamp);
`

export const sha256 = (key: string) => createHash('sha256').update(key).digest('hex')

type Row = Readonly<Record<string, unknown>>

export async function fillLiteLlm(
  url: string,
  content: Readonly<Record<string, readonly Row[]>>,
): Promise<void> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    await client.query(SCHEMA)
    for (const [table, rows] of Object.entries(content))
      for (const row of rows) {
        const names = Object.keys(row)
        await client.query(
          `insert into "${table}" (${names.map(name => `"${name}"`).join()}) values (${names.map((_, index) => `$${index + 1}`).join()})`,
          Object.values(row),
        )
      }
  } finally {
    await client.end()
  }
}
