import { hashSync } from 'bcryptjs'
import type { SourceContent } from './new-api-source.ts'

/** An instance of new-api with everything that an import treats in its own way. */

export const key = (letter: string) => letter.repeat(48)
export const bcrypt = (password: string) => hashSync(password, 4).replace('$2b$', '$2a$')
export const SYSTEM_TOKEN = 'system-access-token-of-alice-32c'
export const MODEL = 'small-model'
export const CREATED = 1_760_000_000

export const user = (id: number, username: string, fields: object = {}) => ({
  id,
  username,
  password: bcrypt(`password of ${username}`),
  display_name: username,
  role: 1,
  status: 1,
  email: '',
  quota: 500_000,
  used_quota: 7,
  group: 'default',
  access_token: null,
  created_at: CREATED + id,
  deleted_at: null,
  ...fields,
})

export const token = (id: number, userId: number, value: string, fields: object = {}) => ({
  id,
  user_id: userId,
  key: value,
  status: 1,
  name: `token ${id}`,
  created_time: CREATED + id,
  accessed_time: 0,
  expired_time: -1,
  remain_quota: 100_000,
  unlimited_quota: false,
  model_limits_enabled: false,
  model_limits: '',
  allow_ips: null,
  used_quota: 0,
  group: '',
  deleted_at: null,
  ...fields,
})

export const channel = (id: number, name: string, fields: object = {}) => ({
  id,
  type: 1,
  key: `provider-key-${id}`,
  status: 1,
  name,
  weight: 5,
  created_time: CREATED + id,
  base_url: '',
  other: '',
  models: MODEL,
  group: 'default',
  model_mapping: '',
  status_code_mapping: '',
  priority: 0,
  auto_ban: 1,
  other_info: '',
  tag: null,
  setting: null,
  settings: '',
  param_override: null,
  header_override: null,
  remark: '',
  channel_info: Buffer.from('{"is_multi_key":false}'),
  ...fields,
})

export const contentFor = (upstream: string): SourceContent => ({
  users: [
    user(1, 'root', { role: 100, quota: 100_000_000 }),
    user(2, 'alice', { quota: 1_234_567, access_token: SYSTEM_TOKEN, group: 'vip' }),
    user(3, 'bob smith', { quota: -5 }),
    user(4, 'ALICE', { quota: 0 }),
    user(5, 'rich', { quota: 500_000_000_000_000n }),
    user(6, 'kim', { password: bcrypt('123456'), status: 1 }),
    user(7, 'off', { status: 2 }),
    user(8, 'gone', { deleted_at: '2026-01-02 03:04:05.678+00:00' }),
    user(9, 'oauth', { password: '' }),
  ],
  tokens: [
    token(1, 2, key('a')),
    token(2, 2, key('b'), {
      unlimited_quota: true,
      remain_quota: -500,
      model_limits_enabled: true,
      model_limits: 'other-model,another-model',
      allow_ips: '127.0.0.1\n10.0.0.0/8',
    }),
    token(3, 2, key('c'), { model_limits_enabled: true, model_limits: '' }),
    token(4, 3, key('d'), { status: 2, remain_quota: -3, name: '' }),
    token(5, 2, key('e'), { expired_time: CREATED, status: 1 }),
    token(6, 8, key('f')),
    token(7, 2, key('g'), { deleted_at: '2026-01-02 03:04:05.678+00:00' }),
    token(8, 2, key('h'), { allow_ips: '1.2.3.4,5.6.7.8' }),
    token(9, 2, key('i'), { allow_ips: '300.1.1.1' }),
  ],
  channels: [
    channel(1, 'simulated', {
      base_url: upstream,
      models: `,${MODEL},other-model,`,
      model_mapping: JSON.stringify({ [MODEL]: 'sim-words-4', 'other-model': 'sim-words-4' }),
      priority: 10,
      tag: 'main',
      param_override: '{"temperature":0.5}',
      header_override: '{"x-extra":"yes"}',
      status_code_mapping: '{"429":"503"}',
      remark: 'the first',
    }),
    channel(2, 'several keys', {
      type: 14,
      key: 'key-one\nkey-two\nkey-three',
      models: 'claude-3-5-sonnet',
      status: 3,
      other_info: '{"status_reason":"401 from the provider","status_time":1760000000}',
      channel_info: Buffer.from(
        JSON.stringify({
          is_multi_key: true,
          multi_key_size: 3,
          multi_key_status_list: { 1: 3 },
          multi_key_disabled_reason: { 1: 'refused' },
          multi_key_mode: 'random',
        }),
      ),
    }),
    channel(3, 'midjourney', { type: 2 }),
    channel(4, 'behind a proxy', { setting: '{"proxy":"socks5://user:secret-password@10.0.0.1:1080"}' }),
    channel(5, 'not for all', { group: 'vip', param_override: 'no json {secret-in-json' }),
    channel(6, 'full address', { type: 8, base_url: 'https://example.com/models/{model}/chat' }),
  ],
  options: [
    { key: 'ModelRatio', value: `{"${MODEL}": 0.5, "claude-3-5-sonnet": 1.5, "unused-model": 9}` },
    { key: 'CompletionRatio', value: `{"${MODEL}": 3, "claude-3-5-sonnet": 99}` },
    { key: 'ModelPrice', value: '{"other-model": 0.02}' },
    { key: 'GroupRatio', value: '{"default":1,"vip":0.8}' },
  ],
  two_fas: [{ id: 1, user_id: 2, secret: 'TOTPSECRET', is_enabled: true }],
  logs: [
    {
      id: 1,
      user_id: 2,
      created_at: Math.floor(Date.now() / 1000) - 3600,
      type: 2,
      token_name: 'token 1',
      model_name: MODEL,
      quota: 250,
      prompt_tokens: 100,
      completion_tokens: 50,
      use_time: 3,
      is_stream: true,
      channel_id: 1,
      token_id: 1,
      ip: '203.0.113.9',
      other: '{"model_ratio":0.5}',
    },
    { id: 2, user_id: 2, created_at: 1_600_000_000, type: 2, quota: 9, token_id: 1, channel_id: 1 },
    { id: 3, user_id: 2, created_at: Math.floor(Date.now() / 1000), type: 1, quota: 500_000 },
  ],
})
