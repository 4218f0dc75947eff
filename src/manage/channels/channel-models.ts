import { KEY_STATUS, keyFault, readKeys } from '../../domain/channel-key.ts'
import { invalidField, Refusal } from '../../domain/errors.ts'
import {
  createScrub,
  type Scrub,
  secretsOfFields,
  secretsOfHeaders,
  secretsOfKey,
} from '../../domain/scrub.ts'
import { readChannelNetwork } from '../../http/channel-network.ts'
import {
  byUse,
  endpoint,
  fieldValues,
  fill,
  headersOf,
  type Provider,
  providers,
  signerOf,
  typeEntry,
  type Values,
} from '../../providers/index.ts'
import { shippedModels, shippedOwner } from '../../providers/prices/shipped.ts'
import { listSealedKeys } from '../../store/records/channel-keys.ts'
import { countTypes } from '../../store/records/channel-lists.ts'
import { enabledModels } from '../../store/records/channels.ts'
import type { channelContract } from '../contract/channels.ts'
import type { Handlers } from '../server/call.ts'
import type { Deps } from '../server/deps.ts'
import { readObject } from '../server/json-object.ts'
import { checkProviderFields, readBaseUrl, readProvider, withOther } from './channel-fields.ts'
import { checkNetwork } from './channel-objects.ts'
import { createChannelRows } from './channel-rows.ts'
import { createChannelSeals } from './channel-seals.ts'

const MAX_SETTING_BYTES = 64 * 1024

/** What a request to a provider needs. */
type Upstream = {
  readonly type: number
  readonly baseUrl: string
  readonly key: string
  readonly setting: Readonly<Record<string, unknown>>
  readonly organization: string
  readonly headerOverride: Readonly<Record<string, string>>
}

/** Lists of models: well-known ones, those served here, and those that a provider lists. */
export function createChannelModelHandlers(
  deps: Deps,
): Pick<
  Handlers<typeof channelContract>,
  'listTypes' | 'listKnownModels' | 'listEnabledModels' | 'fetchModelsOf' | 'fetchModelsById' | 'fetchModels'
> {
  const { db, outbound, startTime, addressPolicy } = deps
  const seals = createChannelSeals(deps)
  const rows = createChannelRows(deps)

  async function ask({
    type,
    baseUrl,
    key,
    setting,
    organization,
    headerOverride,
  }: Upstream): Promise<string[]> {
    const provider = readProvider(type, 'type')
    if (!provider.models)
      throw invalidField(
        'type',
        `must be a provider that lists its models; ${provider.name} does not, so enter the names by hand`,
      )
    const values = fieldValues(provider, key, { ...setting, openai_organization: organization })
    const host = provider.models.baseUrl ?? provider.baseUrl
    const listed = host === undefined ? provider : { ...provider, baseUrl: host }
    const url = fill(endpoint(listed, baseUrl, provider.models.path), values)
    if (url === undefined) throw invalidField('setting', `lacks a field that ${provider.name} needs`)
    const scrub = createScrub([
      ...secretsOfKey(key),
      ...secretsOfHeaders(headerOverride),
      ...secretsOfFields(setting),
    ])
    try {
      const own = await headersFor(provider, { key, values, url })
      const body = await outbound.getJson(url, own, readChannelNetwork(setting))
      return [...provider.models.names(body)].map(scrub)
    } catch (error) {
      throw error instanceof Refusal ? scrubbed(error, scrub) : error
    }
  }

  async function headersFor(
    provider: Provider,
    { key, values, url }: { key: string; values: Values; url: string },
  ) {
    const headers = headersOf(provider, key, values)
    const sign = signerOf(provider, key, values)
    if (sign === undefined || !URL.canParse(url)) return headers
    const at = new Date(deps.now() * 1000)
    const request = { method: 'GET', url: new URL(url), headers, body: Buffer.alloc(0), at } as const
    return { ...headers, ...(await sign(request)) }
  }

  /** Uses the first enabled key. */
  async function fetchModelsOf(id: number): Promise<string[]> {
    const row = await rows.mustFind(db, id)
    const keys = await listSealedKeys(db, row.id)
    const chosen = keys.find(({ status }) => status === KEY_STATUS.enabled) ?? keys[0]
    return ask({
      type: row.type,
      baseUrl: row.base_url,
      key: chosen ? seals.open(chosen) : '',
      setting: JSON.parse(row.setting),
      organization: row.openai_organization,
      headerOverride: JSON.parse(row.header_override),
    })
  }

  return {
    listTypes: async () => {
      const counts = await countTypes(db, {})
      return byUse(providers, type => counts.get(type) ?? 0).map(provider => {
        const { operations, formats, fields, ...entry } = typeEntry(provider)
        return { ...entry, operations: [...operations], formats: [...formats], fields: [...fields] }
      })
    },

    listKnownModels: async () =>
      shippedModels().map(id => ({
        id,
        object: 'model' as const,
        created: startTime,
        owned_by: shippedOwner(id) ?? '',
      })),

    listEnabledModels: () => enabledModels(db),
    fetchModelsOf: ({ params }) => fetchModelsOf(params.id),
    fetchModelsById: ({ query }) => fetchModelsOf(query.id),

    fetchModels: async ({ body }) => {
      const provider = readProvider(body.type, 'type')
      const setting = readObject(body.setting ?? {}, { path: 'setting', bytes: MAX_SETTING_BYTES })
      checkNetwork(setting, { path: 'setting', policy: addressPolicy })
      const upstream = {
        type: body.type,
        baseUrl: readBaseUrl(body.base_url ?? '', 'base_url', addressPolicy),
        key: firstKeyOf(body.key ?? ''),
        setting: withOther(provider, setting, body.other ?? ''),
        organization: body.openai_organization ?? '',
        headerOverride: {},
      }
      checkProviderFields(
        provider,
        { base_url: upstream.baseUrl, openai_organization: upstream.organization, setting: upstream.setting },
        '',
      )
      return ask(upstream)
    },
  }
}

/** A form may contain several keys; the first is enough. */
function firstKeyOf(keyText: string): string {
  const text = keyText.trim()
  if (!/[\r\n]/.test(text)) {
    const fault = keyFault(text)
    if (fault) throw invalidField('key', fault)
    return text
  }
  const read = readKeys(text)
  if ('fault' in read) throw invalidField('key', read.fault)
  return read.keys[0] ?? ''
}

/** Providers repeat request values, keys among them, in their errors, and could in model names. */
function scrubbed(refusal: Refusal, scrub: Scrub): Refusal {
  const { code, errors, retryAfterS } = refusal
  return new Refusal(code, scrub(refusal.message), {
    ...(errors === undefined ? {} : { errors }),
    ...(retryAfterS === undefined ? {} : { retryAfterS }),
  })
}
