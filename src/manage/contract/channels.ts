import { z } from 'zod'
import {
  channelCreated,
  channelFields,
  channelView,
  group,
  objectOrText,
  priority,
  status,
  tag,
  weight,
} from './channel-fields.ts'
import {
  id,
  idParams,
  ids,
  nameList,
  optional,
  paged,
  pageOf,
  queryFlag,
  queryNumber,
  queryText,
  text,
} from './fields.ts'
import type { Contract } from './route.ts'

/** Values of the filter `status` and the states that they select; existing clients send -1 or nothing for all. */
const STATUS_FILTERS: Readonly<Record<string, readonly number[] | undefined>> = {
  '': undefined,
  all: undefined,
  '-1': undefined,
  enabled: [1],
  '1': [1],
  disabled: [2, 3],
  '0': [2, 3],
  '2': [2],
  '3': [3],
}
const statusFilter = z
  .string()
  .trim()
  .toLowerCase()
  .refine(value => Object.hasOwn(STATUS_FILTERS, value), 'must be "enabled", "disabled", 1, 2 or 3')
  .transform(value => STATUS_FILTERS[value])
  .optional()

const filters = {
  status: statusFilter,
  type: queryNumber,
  group: queryText,
  tag: queryText,
  id_sort: queryFlag,
  tag_mode: queryFlag,
  sort_by: queryText,
  sort_order: queryText,
}

const tagGroup = z
  .object({ tag: z.string().nullable(), channels: z.array(channelView), count: z.int() })
  .meta({ id: 'ChannelTagGroup' })

const channelPage = pageOf(z.union([channelView, tagGroup])).extend({
  type_counts: z.record(z.string(), z.int()).describe('Channels of each type that match the other filters'),
})

const keyParams = z.object({
  ...idParams.shape,
  index: z
    .string()
    .regex(/^\d{1,6}$/, 'must be a whole number')
    .transform(Number),
})

const keysView = z.object({
  keys: z.array(
    z.object({
      index: z.int(),
      status: z.int(),
      disabled_time: z.int().optional(),
      reason: z.string().optional(),
      key_preview: z.string(),
    }),
  ),
  total: z.int(),
  page: z.int(),
  page_size: z.int(),
  total_pages: z.int(),
  enabled_count: z.int(),
  manual_disabled_count: z.int(),
  auto_disabled_count: z.int(),
})

const testView = z.object({
  success: z.boolean(),
  message: z.string(),
  time: z.number().describe('Seconds'),
  data: z.object({
    id: z.int(),
    name: z.string(),
    model: z.string(),
    latency_ms: z.number().nullable(),
    first_token_ms: z.number().nullable(),
    status: z.int().nullable(),
    error: z.string().nullable(),
  }),
})

const modelNames = z.array(z.string())
const someTag = tag.min(1, 'must not be empty')

const { name: _name, type: _type, key: _key, ...sharedFields } = channelFields

export const channelContract = {
  listChannels: {
    method: 'GET',
    path: '/api/channel/',
    access: 'admin',
    summary: 'List channels by priority, or by tag with tag_mode; an unknown sort_by is the default order',
    query: paged(filters),
    data: channelPage,
  },
  searchChannels: {
    method: 'GET',
    path: '/api/channel/search',
    access: 'admin',
    summary: 'Find channels by id, part of the name or base URL, a whole key, or part of a model name',
    query: paged({ ...filters, keyword: queryText, model: queryText }),
    data: channelPage,
  },
  createChannel: {
    method: 'POST',
    path: '/api/channel/',
    access: 'admin',
    summary:
      'Create a channel with one key (single) or several (multi_to_single), or one channel per key (batch: returns an array). Name and type are required, and a key unless the provider runs on your own machine. A channel without models serves nothing',
    body: channelCreated,
    data: z.union([channelView, z.array(channelView)]),
  },
  getChannel: {
    method: 'GET',
    path: '/api/channel/:id',
    access: 'admin',
    summary: 'One channel',
    params: idParams,
    data: channelView,
  },
  updateChannel: {
    method: 'PUT',
    path: '/api/channel/',
    access: 'admin',
    summary:
      'Change only the fields sent; an absent, empty or masked key keeps the stored keys. If type, origin of base_url, proxy or a header with the key changes, an Admin must send the key again',
    body: z.object({
      id,
      ...channelFields,
      key_mode: optional(z.enum(['append', 'replace', ''])).describe(
        'For several keys: append to the existing keys, or replace them (default)',
      ),
    }),
    data: channelView,
  },
  deleteChannel: {
    method: 'DELETE',
    path: '/api/channel/:id',
    access: 'admin',
    summary: 'Delete a channel permanently',
    params: idParams,
  },
  copyChannel: {
    method: 'POST',
    path: '/api/channel/copy/:id',
    access: 'admin',
    summary: 'Duplicate a channel with its keys; the suffix is appended to its name',
    params: idParams,
    query: z.object({ suffix: queryText }),
    data: channelView,
  },
  setChannelStatus: {
    method: 'POST',
    path: '/api/channel/:id/status',
    access: 'admin',
    summary: 'Enable or disable a channel; returns whether the state changed',
    params: idParams,
    body: z.object({ status }),
    data: z.boolean(),
  },
  setChannelStatuses: {
    method: 'POST',
    path: '/api/channel/status/batch',
    access: 'admin',
    summary: 'Enable or disable several channels; returns the number of changed ones',
    body: ids.extend({ status }),
    data: z.int(),
  },
  editChannels: {
    method: 'PUT',
    path: '/api/channel/batch',
    access: 'admin',
    summary:
      'Change the same fields of several channels. Each channel is changed completely or not at all; the response says which. Name, type and keys cannot be changed; models are replaced by `fields.models`, or added and removed',
    body: ids.extend({
      fields: z.object(sharedFields),
      add_models: optional(nameList).describe('Models to add to each channel'),
      remove_models: optional(nameList).describe('Models to remove from each channel'),
    }),
    data: z.array(
      z.object({
        id: z.int(),
        is_changed: z.boolean(),
        code: z.string().describe('Error message; empty on success'),
        message: z.string(),
      }),
    ),
  },
  deleteChannels: {
    method: 'POST',
    path: '/api/channel/batch',
    access: 'admin',
    summary: 'Delete several channels; returns their number',
    body: ids,
    data: z.int(),
  },
  deleteDisabledChannels: {
    method: 'DELETE',
    path: '/api/channel/disabled',
    access: 'admin',
    summary: 'Delete every disabled and auto-disabled channel; returns their number',
    data: z.int(),
  },

  revealChannelKey: {
    method: 'POST',
    path: '/api/channel/:id/key',
    access: 'root',
    summary: 'Reveal the key of a channel, or its keys separated by line breaks; audited',
    params: idParams,
    data: z.object({ key: z.string() }),
  },
  setChannelKeyStatus: {
    method: 'POST',
    path: '/api/channel/:id/keys/:index/status',
    access: 'admin',
    summary: 'Enable or disable one key of a channel',
    params: keyParams,
    body: z.object({ status }),
    data: channelView,
  },
  deleteChannelKey: {
    method: 'DELETE',
    path: '/api/channel/:id/keys/:index',
    access: 'admin',
    summary: 'Delete one key of a channel; later keys move up. The last key cannot be deleted',
    params: keyParams,
    data: channelView,
  },
  manageChannelKeys: {
    method: 'POST',
    path: '/api/channel/multi_key/manage',
    access: 'admin',
    summary:
      'Manage the keys of a channel in the form of existing clients; every action returns the keys after it',
    body: z.object({
      channel_id: id,
      action: z.enum([
        'get_key_status',
        'disable_key',
        'enable_key',
        'enable_all_keys',
        'disable_all_keys',
        'delete_key',
        'delete_disabled_keys',
      ]),
      key_index: optional(z.int().min(0).max(1_000_000)),
      page: optional(z.int().max(1_000_000)),
      page_size: optional(z.int().max(1_000_000)),
      status: optional(z.int().min(0).max(3)),
    }),
    data: keysView,
  },

  enableTag: {
    method: 'POST',
    path: '/api/channel/tag/enabled',
    access: 'admin',
    summary: 'Enable every channel of a tag',
    body: z.object({ tag: someTag }),
  },
  disableTag: {
    method: 'POST',
    path: '/api/channel/tag/disabled',
    access: 'admin',
    summary: 'Disable every channel of a tag',
    body: z.object({ tag: someTag }),
  },
  updateTag: {
    method: 'PUT',
    path: '/api/channel/tag',
    access: 'admin',
    summary:
      'Change every channel of a tag; an empty list of models changes nothing, an empty new_tag removes the tag',
    body: z.object({
      tag: someTag,
      new_tag: optional(tag),
      priority: optional(priority),
      weight: optional(weight),
      models: optional(nameList),
      model_mapping: optional(objectOrText),
      groups: optional(group),
      param_override: optional(objectOrText),
      header_override: optional(objectOrText),
    }),
  },
  tagChannels: {
    method: 'POST',
    path: '/api/channel/batch/tag',
    access: 'admin',
    summary: 'Set the tag of several channels, or remove it with null; returns their number',
    body: ids.extend({ tag: tag.nullable() }),
    data: z.int(),
  },
  listTagModels: {
    method: 'GET',
    path: '/api/channel/tag/models',
    access: 'admin',
    summary: 'The longest list of models among the channels of a tag, separated by commas',
    query: z.object({ tag: text({ min: 1, max: 100 }) }),
    data: z.string(),
  },

  listTypes: {
    method: 'GET',
    path: '/api/channel/types',
    access: 'admin',
    summary:
      'Channel types: the providers and the fields that each needs. Those with most channels first, then the most popular ones',
    data: z.array(
      z.object({
        type: z.int(),
        name: z.string(),
        base_url: z.string(),
        operations: z.array(z.string()),
        formats: z.array(z.string()),
        fields: z.array(
          z.object({
            name: z.string(),
            label: z.string(),
            required: z.boolean(),
            secret: z.boolean(),
            help: z.string(),
          }),
        ),
        lists_models: z.boolean(),
        key_hint: z.string(),
      }),
    ),
  },
  listKnownModels: {
    method: 'GET',
    path: '/api/channel/models',
    access: 'admin',
    summary: 'Well-known models, as suggestions for a channel',
    data: z.array(
      z.object({ id: z.string(), object: z.literal('model'), created: z.int(), owned_by: z.string() }),
    ),
  },
  listEnabledModels: {
    method: 'GET',
    path: '/api/channel/models_enabled',
    access: 'admin',
    summary: 'Every model that an enabled channel lists',
    data: modelNames,
  },
  fetchModelsOf: {
    method: 'GET',
    path: '/api/channel/fetch_models/:id',
    access: 'admin',
    summary: 'Fetch the list of models from the provider of a channel',
    params: idParams,
    data: modelNames,
  },
  fetchModelsById: {
    method: 'GET',
    path: '/api/channel/fetch_models',
    access: 'admin',
    summary: 'The same, with the id in the query',
    query: idParams,
    data: modelNames,
  },
  fetchModels: {
    method: 'POST',
    path: '/api/channel/fetch_models',
    access: 'admin',
    summary: 'Fetch the list of models from a provider before creating a channel',
    body: z.object({
      type: z.int(),
      base_url: channelFields.base_url,
      key: channelFields.key,
      setting: channelFields.setting,
      other: channelFields.other,
      openai_organization: channelFields.openai_organization,
    }),
    data: modelNames,
  },

  testChannels: {
    method: 'GET',
    path: '/api/channel/test',
    access: 'admin',
    summary: 'Send a test request through every enabled channel',
    data: z.array(testView),
  },
  testChannel: {
    method: 'GET',
    path: '/api/channel/test/:id',
    access: 'admin',
    summary: 'Send a test request through one channel; a failed test is a result, not an error',
    params: idParams,
    query: z.object({
      model: queryText,
      stream: queryFlag,
      endpoint_type: queryText,
      key: queryNumber.describe('Index of the key to test; default: the first enabled key'),
    }),
    reply: testView,
  },
} as const satisfies Contract
