import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { OPERATIONS } from '../../src/domain/operation.ts'
import {
  endpoint,
  fieldValues,
  fill,
  formatsFor,
  formatsOf,
  headersOf,
  operationsOf,
  type Provider,
  pathFor,
  pathsOf,
  providerOf,
  providers,
  typeEntry,
} from '../../src/providers/index.ts'
import { allOf, geminiModels, namesAt, ollamaModels, openaiModels } from '../../src/providers/model-lists.ts'

const provider = (type: number): Provider => {
  const foundProvider = providerOf(type)
  assert.ok(foundProvider, `no provider of type ${type}`)
  return foundProvider
}

/** A vendor with the common paths and no base URL. */
const plain: Provider = {
  type: 0,
  name: 'Plain',
  chat: { 'openai-chat': '/v1/chat/completions', anthropic: '/v1/messages' },
  embeddings: { openai: '/v1/embeddings' },
  keyHint: '',
}

const distinct = (values: readonly unknown[]) => new Set(values).size

/** Placeholders of a path that a request sets, not a channel. */
const REQUEST_VALUES = { model: 'm', voice: 'v', method: 'x' }

describe('the list of providers', () => {
  it('uses no number and no name twice', () => {
    assert.equal(distinct(providers.map(({ type }) => type)), providers.length)
    assert.equal(distinct(providers.map(({ name }) => name)), providers.length)
  })

  it('is ordered by number, with a gap between the inherited numbers and new ones', () => {
    const types = providers.map(({ type }) => type)
    assert.deepEqual(
      types,
      types.toSorted((a, b) => a - b),
    )
    assert.ok(types.every(type => (type >= 1 && type <= 60) || type >= 1001))
  })

  it('finds a provider by its number and nothing by any other', () => {
    for (const each of providers) assert.equal(providerOf(each.type), each)
    for (const type of [-1, 0, 11, 1000, 1.5, Number.NaN]) assert.equal(providerOf(type), undefined)
  })

  it('keeps the inherited numbers, names and base URLs', () => {
    const facts: [number, string, string | undefined][] = [
      [1, 'OpenAI', 'https://api.openai.com'],
      [3, 'Azure', undefined],
      [4, 'Ollama', 'http://localhost:11434'],
      [8, 'Custom', undefined],
      [14, 'Anthropic', 'https://api.anthropic.com'],
      [17, 'Ali (DashScope)', 'https://dashscope.aliyuncs.com'],
      [20, 'OpenRouter', 'https://openrouter.ai/api'],
      [24, 'Gemini', 'https://generativelanguage.googleapis.com'],
      [25, 'Moonshot', 'https://api.moonshot.cn'],
      [26, 'Zhipu V4', 'https://open.bigmodel.cn'],
      [27, 'Perplexity', 'https://api.perplexity.ai'],
      [34, 'Cohere', 'https://api.cohere.ai'],
      [35, 'MiniMax', 'https://api.minimax.chat'],
      [40, 'SiliconFlow', 'https://api.siliconflow.cn'],
      [42, 'Mistral', 'https://api.mistral.ai'],
      [43, 'DeepSeek', 'https://api.deepseek.com'],
      [45, 'VolcEngine', 'https://ark.cn-beijing.volces.com'],
      [46, 'Baidu V2', 'https://qianfan.baidubce.com'],
      [47, 'Xinference', undefined],
      [48, 'xAI', 'https://api.x.ai'],
      [50, 'Kling', 'https://api.klingai.com'],
      [52, 'Vidu', 'https://api.vidu.cn'],
      [55, 'Sora', 'https://api.openai.com'],
      [56, 'Replicate', 'https://api.replicate.com'],
      [60, 'New API', undefined],
    ]
    for (const [type, name, baseUrl] of facts) {
      assert.equal(provider(type).name, name)
      assert.equal(provider(type).baseUrl, baseUrl)
    }
  })
})

for (const each of providers) {
  describe(`the provider ${each.name}`, () => {
    it('supports at least one operation, each with at least one path', () => {
      const operations = operationsOf(each)
      assert.ok(operations.length > 0)
      for (const operation of operations) assert.ok(Object.keys(each[operation] ?? {}).length > 0, operation)
    })

    it('has paths that start with a slash and a base URL that ends without one', () => {
      for (const path of pathsOf(each)) assert.match(path, /^\/[^/]/)
      assert.doesNotMatch(each.baseUrl ?? '', /[/?#]$/)
    })

    it('has URLs that parse and lose no segment, once its fields are set', () => {
      const settings = Object.fromEntries((each.fields ?? []).map(({ name }) => [name, 'x']))
      const key = '{"project_id":"p"}'
      const values = { ...REQUEST_VALUES, ...fieldValues(each, key, settings) }
      for (const path of pathsOf(each)) {
        const address = fill(endpoint(each, each.baseUrl ?? 'https://host.example', path), values)
        assert.ok(address, `${path} has a placeholder that nothing fills`)
        assert.match(new URL(address).protocol, /^https?:$/)
        assert.ok(address.endsWith(fill(path, values) ?? '-'), `${address} does not end in ${path}`)
      }
    })

    it('fills its paths without settings if no field is required', () => {
      const needs = (each.fields ?? []).some(({ required }) => required)
      const values = { ...REQUEST_VALUES, ...fieldValues(each, '{"project_id":"p"}', {}) }
      const filled = pathsOf(each).map(path => fill(endpoint(each, each.baseUrl ?? 'http://h', path), values))
      assert.equal(filled.includes(undefined), needs)
    })

    it('sends its key or exchanges it', () => {
      assert.ok(each.auth ?? each.exchange)
      assert.notEqual(each.keyHint, '')
    })

    const list = each.models
    if (list !== undefined) {
      it('parses an invalid model list as empty', () => {
        for (const rubbish of [
          null,
          undefined,
          [],
          {},
          'text',
          7,
          [null, 'x', 1, {}],
          { data: null, models: 'x' },
        ]) {
          assert.deepEqual(list.names(rubbish), [])
        }
      })
    }
  })
}

describe('an endpoint', () => {
  const chat = '/v1/chat/completions'
  const cases: [string, Provider, string, string, string][] = [
    ['joins a bare host', plain, 'https://h.example', chat, 'https://h.example/v1/chat/completions'],
    ['ignores a trailing slash', plain, 'https://h.example/', chat, 'https://h.example/v1/chat/completions'],
    ['ignores spaces around', plain, ' https://h.example \n', chat, 'https://h.example/v1/chat/completions'],
    ['does not double /v1', plain, 'https://h.example/v1', chat, 'https://h.example/v1/chat/completions'],
    ['nor /v1/', plain, 'https://h.example/v1/', chat, 'https://h.example/v1/chat/completions'],
    [
      'keeps what is before /v1',
      plain,
      'https://h.example/a/v1',
      chat,
      'https://h.example/a/v1/chat/completions',
    ],
    ['keeps a port', plain, 'http://127.0.0.1:3100/v1', chat, 'http://127.0.0.1:3100/v1/chat/completions'],
    [
      'takes a whole call as base',
      plain,
      'https://h.example/a/v1/chat/completions',
      chat,
      'https://h.example/a/v1/chat/completions',
    ],
    [
      'finds another call beside a whole one',
      plain,
      'https://h.example/v1/chat/completions',
      '/v1/embeddings',
      'https://h.example/v1/embeddings',
    ],
    [
      'keeps another version',
      plain,
      'https://h.example/api/paas/v4',
      chat,
      'https://h.example/api/paas/v4/chat/completions',
    ],
    [
      'keeps another version of a whole call',
      plain,
      'https://h.example/api/paas/v4/chat/completions',
      '/v1/embeddings',
      'https://h.example/api/paas/v4/embeddings',
    ],
    [
      'adds no version to a whole call that has none',
      plain,
      'https://h.example/chat/completions',
      chat,
      'https://h.example/chat/completions',
    ],
    [
      'does not mistake a word for a version',
      plain,
      'https://h.example/video',
      chat,
      'https://h.example/video/v1/chat/completions',
    ],
    [
      'carries the query of the base',
      plain,
      'https://h.example/v1?a=1',
      chat,
      'https://h.example/v1/chat/completions?a=1',
    ],
    ['joins both queries', plain, 'https://h.example?a=1', '/v1/x?b=2', 'https://h.example/v1/x?a=1&b=2'],
    [
      'takes an address with # as it is',
      plain,
      'https://h.example/odd/call#',
      chat,
      'https://h.example/odd/call',
    ],
    [
      'uses the vendor’s address for none',
      provider(43),
      '',
      chat,
      'https://api.deepseek.com/v1/chat/completions',
    ],
    [
      'drops a prefix that belongs to another format',
      provider(43),
      'https://api.deepseek.com/anthropic',
      chat,
      'https://api.deepseek.com/v1/chat/completions',
    ],
    [
      'drops a prefix of several segments for every call',
      provider(17),
      'https://h.example/compatible-mode/v1',
      '/api/v1/services/aigc/video-generation/video-synthesis',
      'https://h.example/api/v1/services/aigc/video-generation/video-synthesis',
    ],
    [
      'puts a plan’s own prefix in place of the vendor’s',
      provider(45),
      'https://ark.example/api/coding/v3',
      '/api/v3/chat/completions',
      'https://ark.example/api/coding/v3/chat/completions',
    ],
    [
      'knows a pasted account for the field it is',
      provider(39),
      'https://h.example/client/v4/accounts/abc/ai/v1',
      '/client/v4/accounts/{account_id}/ai/run/{+model}',
      'https://h.example/client/v4/accounts/{account_id}/ai/run/{+model}',
    ],
    [
      'leaves a proxy’s path before a model’s name alone',
      provider(1018),
      'https://proxy.example/fal',
      '/{+model}',
      'https://proxy.example/fal/{+model}',
    ],
    [
      'does not double the prefix of a deployment',
      provider(3),
      'https://r.openai.azure.example/openai',
      '/openai/deployments/{model}/embeddings?api-version={api_version}',
      'https://r.openai.azure.example/openai/deployments/{model}/embeddings?api-version={api_version}',
    ],
    [
      'takes the version of the base for a stream too',
      provider(24),
      'https://g.example/v1',
      '/v1beta/models/{model}:streamGenerateContent?alt=sse',
      'https://g.example/v1/models/{model}:streamGenerateContent?alt=sse',
    ],
  ]
  for (const [name, vendor, base, path, expected] of cases) {
    it(name, () => assert.equal(endpoint(vendor, base, path), expected))
  }
})

describe('placeholders', () => {
  it('are filled as one segment, or with their slashes kept', () => {
    assert.equal(fill('/a/{model}/b', { model: 'x/y:0 z?' }), '/a/x%2Fy%3A0%20z%3F/b')
    assert.equal(fill('/a/{+model}/b', { model: '@cf/y?' }), '/a/@cf/y%3F/b')
  })

  it('may be empty, but not unknown', () => {
    assert.equal(fill('https://{prefix}h', { prefix: '' }), 'https://h')
    assert.equal(fill('https://{prefix}h', {}), undefined)
  })

  it('fall back if a field is empty', () => {
    const { fields } = provider(3)
    const fallback = fields?.find(({ name }) => name === 'api_version')?.fallback
    assert.ok(fallback)
    assert.equal(fieldValues(provider(3), 'k', {}).api_version, fallback)
    assert.equal(fieldValues(provider(3), 'k', { api_version: '  ' }).api_version, fallback)
    assert.equal(fieldValues(provider(3), 'k', { api_version: ' 2024-10-21 ' }).api_version, '2024-10-21')
    assert.equal(fieldValues(provider(3), 'k', { api_version: 5 }).api_version, fallback)
  })

  it('prefer the region of a signing key or an API key over the field', () => {
    const region = (key: string) => fieldValues(provider(33), key, { region: 'eu-west-1' }).region
    assert.equal(region('AKIAXXXXXXXXXXXXXXXX|secret|ap-south-1'), 'ap-south-1')
    assert.equal(region('AKIAXXXXXXXXXXXXXXXX|secret'), 'eu-west-1')
    assert.equal(region('ABSKxxxx|us-west-2'), 'us-west-2')
    assert.equal(region('ABSKxxxx'), 'eu-west-1')
  })

  it('use the plain host for the global location', () => {
    const vertex = provider(41)
    const host = (setting: Record<string, string>) => {
      const values = fieldValues(vertex, '{"project_id":"p1"}', setting)
      return fill(endpoint(vertex, '', '/v1/projects/{project}/locations/{region}'), values)
    }
    assert.equal(host({}), 'https://aiplatform.googleapis.com/v1/projects/p1/locations/global')
    assert.equal(
      host({ region: 'us-central1', project: 'p2' }),
      'https://us-central1-aiplatform.googleapis.com/v1/projects/p2/locations/us-central1',
    )
  })
})

describe('headers', () => {
  it('contain the key in the vendor’s way', () => {
    assert.deepEqual(headersOf(provider(1), 'sk-1', {}), { authorization: 'Bearer sk-1' })
    assert.deepEqual(headersOf(provider(3), 'k', {}), { 'api-key': 'k' })
    assert.deepEqual(headersOf(provider(52), 'k', {}), { authorization: 'Token k' })
    assert.deepEqual(headersOf(provider(14), 'k', {}), {
      'x-api-key': 'k',
      'anthropic-version': '2023-06-01',
    })
  })

  it('contain no empty key', () => {
    assert.deepEqual(headersOf(provider(4), '', {}), {})
    assert.deepEqual(headersOf(provider(24), '', {}), {})
  })

  it('never contain a key that is used for signing or exchanged', () => {
    assert.deepEqual(headersOf(provider(33), 'AKIAXXXXXXXXXXXXXXXX|secret|us-east-1', {}), {})
    assert.deepEqual(headersOf(provider(50), 'access|secret', {}), {})
    assert.deepEqual(headersOf(provider(41), '{"project_id":"p","private_key":"s"}', {}), {})
  })

  it('contain a plain key of a vendor that also exchanges keys, without its other parts', () => {
    assert.deepEqual(headersOf(provider(33), 'ABSKx|us-east-1', {}), { authorization: 'Bearer ABSKx' })
    assert.deepEqual(headersOf(provider(50), 'single', {}), { authorization: 'Bearer single' })
  })

  it('contain the fields that are sent as headers', () => {
    const values = fieldValues(provider(1), 'sk-1', { openai_organization: 'org-1' })
    assert.deepEqual(headersOf(provider(1), 'sk-1', values), {
      authorization: 'Bearer sk-1',
      'openai-organization': 'org-1',
    })
    const baidu = 'bce-v3/x|app-1'
    assert.deepEqual(headersOf(provider(46), baidu, fieldValues(provider(46), baidu, {})), {
      authorization: 'Bearer bce-v3/x',
      appid: 'app-1',
    })
  })
})

describe('operations and formats', () => {
  it('are listed in the order of the reference, each once', () => {
    const everything = provider(60)
    assert.deepEqual(operationsOf(everything), [...OPERATIONS])
    assert.deepEqual(formatsOf(everything), [
      'openai-chat',
      'responses',
      'anthropic',
      'gemini',
      'openai',
      'cohere',
    ])
  })

  it('exclude what a vendor does not support', () => {
    assert.deepEqual(operationsOf(provider(14)), ['chat'])
    assert.deepEqual(formatsFor(provider(14), 'embeddings', 'any'), [])
  })

  it('have a separate path for streams if the vendor requires it', () => {
    const path = provider(33).chat?.bedrock
    assert.ok(path)
    assert.equal(pathFor(path, false), '/model/{model}/converse')
    assert.equal(pathFor(path, true), '/model/{model}/converse-stream')
    assert.equal(pathFor('/same', true), '/same')
  })

  it('depend on the model’s name if a vendor hosts several publishers', () => {
    const vertex = provider(41)
    assert.deepEqual(formatsFor(vertex, 'chat', 'claude-sonnet-4-5@20250929'), ['anthropic'])
    assert.deepEqual(formatsFor(vertex, 'chat', 'gemini-2.5-flash'), ['gemini'])
    assert.deepEqual(formatsFor(vertex, 'chat', 'meta/llama-4-maverick'), ['openai-chat'])
    assert.deepEqual(formatsFor(vertex, 'embeddings', 'text-embedding-005'), ['native'])
    assert.deepEqual(formatsFor(provider(24), 'images', 'imagen-4.0-generate-001'), ['native'])
    assert.deepEqual(formatsFor(provider(24), 'images', 'gemini-2.5-flash-image'), ['gemini'])
    assert.deepEqual(formatsFor(provider(43), 'chat', 'any'), ['openai-chat', 'anthropic', 'responses'])
    assert.deepEqual(formatsFor(provider(23), 'chat', 'hunyuan-lite'), ['openai-chat'])
    assert.deepEqual(formatsFor(provider(23), 'chat', 'hunyuan-2.0-instruct'), ['openai-chat', 'anthropic'])
    assert.deepEqual(formatsFor(provider(59), 'chat', 'claude-opus-4-5'), ['anthropic'])
    assert.deepEqual(formatsFor(provider(59), 'chat', 'gpt-5'), ['openai-chat', 'responses'])
  })

  it('include Anthropic’s beside OpenAI’s at one base URL, whichever of the two was configured', () => {
    const at = (type: number, base: string, format: 'anthropic' | 'openai-chat') =>
      endpoint(provider(type), base, pathFor(provider(type).chat?.[format] ?? '', false))
    for (const base of ['', 'https://api.novita.ai/openai', 'https://api.novita.ai/openai/v1']) {
      assert.equal(at(1007, base, 'openai-chat'), 'https://api.novita.ai/openai/v1/chat/completions')
      assert.equal(at(1007, base, 'anthropic'), 'https://api.novita.ai/anthropic/v1/messages')
    }
    for (const base of ['', 'https://ark.cn-beijing.volces.com/api/v3']) {
      const host = 'https://ark.cn-beijing.volces.com'
      assert.equal(at(45, base, 'openai-chat'), `${host}/api/v3/chat/completions`)
      assert.equal(at(45, base, 'anthropic'), `${host}/api/compatible/v1/messages`)
    }
    assert.equal(at(4, 'http://h:11434/v1', 'anthropic'), 'http://h:11434/v1/messages')
  })

  it('of a project on Vertex contain the project, those of the express mode do not', () => {
    const { chat } = provider(41)
    const path = pathFor(chat?.gemini ?? '', false)
    const at = (key: string, setting: Record<string, string>) => {
      const values = { ...fieldValues(provider(41), key, setting), model: 'm' }
      return fill(endpoint(provider(41), '', path), values)
    }
    const host = 'https://aiplatform.googleapis.com/v1'
    assert.equal(at('AIza', {}), `${host}/publishers/google/models/m:generateContent`)
    assert.equal(
      at('{"project_id":"p1"}', { region: 'europe-west4' }),
      'https://europe-west4-aiplatform.googleapis.com/v1/projects/p1/locations/europe-west4/publishers/google/models/m:generateContent',
    )
  })
})

describe('parsers of model lists', () => {
  it('parse the common envelope and drop duplicates', () => {
    assert.deepEqual(openaiModels({ object: 'list', data: [{ id: 'a' }, { id: 'b' }, { id: 'a' }] }), [
      'a',
      'b',
    ])
  })

  it('strip the prefix models/ from names', () => {
    const body = {
      models: [{ name: 'models/a' }, { name: 'a' }, { name: 'models/' }, { name: 'tuned/models/b' }],
    }
    assert.deepEqual(geminiModels(body), ['a', 'tuned/models/b'])
  })

  it('parse names, bare arrays and several lists', () => {
    assert.deepEqual(ollamaModels({ models: [{ name: 'llama3:8b' }] }), ['llama3:8b'])
    assert.deepEqual(namesAt(undefined, 'model_id')([{ model_id: 'x' }]), ['x'])
    assert.deepEqual(
      allOf(namesAt('a', 'n'), namesAt('b', 'n'))({ a: [{ n: '1' }], b: [{ n: '1' }, { n: '2' }] }),
      ['1', '2'],
    )
  })

  it('skip entries that are not models', () => {
    const data = [null, 'x', 3, [], {}, { id: 1 }, { id: '' }, { id: null }, { id: 'good' }]
    assert.deepEqual(openaiModels({ data }), ['good'])
    assert.deepEqual(openaiModels(Object.create({ data: [{ id: 'inherited' }] })), [])
  })

  it('parse each vendor’s own format', () => {
    assert.deepEqual(provider(1002).models?.names([{ id: 'a' }]), ['a'])
    assert.deepEqual(provider(1002).models?.names({ data: [{ id: 'a' }] }), ['a'])
    assert.deepEqual(provider(39).models?.names({ result: [{ name: '@cf/a' }] }), ['@cf/a'])
    assert.deepEqual(
      provider(1014).models?.names({
        stt: [{ canonical_name: 'nova-3' }],
        tts: [{ canonical_name: 'aura' }],
      }),
      ['nova-3', 'aura'],
    )
  })
})

describe('a key or credit error behind another status', () => {
  const isTrouble = (type: number, status: number, body: unknown) => provider(type).isKeyError?.(status, body)

  it('is a 400 that names an invalid key', () => {
    const body = { error: { code: 400, details: [{ reason: 'API_KEY_INVALID' }] } }
    assert.equal(isTrouble(24, 400, body), true)
    assert.equal(isTrouble(24, 404, body), false)
    assert.equal(isTrouble(24, 400, { error: { code: 400, details: [{ reason: 'BAD_FIELD' }] } }), false)
    assert.equal(isTrouble(48, 400, { code: 'invalid-argument', error: 'Incorrect API key provided.' }), true)
    assert.equal(isTrouble(48, 400, { code: 'invalid-argument', error: 'temperature is too high' }), false)
  })

  it('is an error code of the account', () => {
    assert.equal(isTrouble(17, 400, { code: 'Arrearage' }), true)
    assert.equal(isTrouble(17, 400, { error: { code: 'Arrearage' } }), true)
    assert.equal(isTrouble(17, 400, { code: 'InvalidParameter' }), false)
    assert.equal(isTrouble(35, 200, { base_resp: { status_code: 1008 } }), true)
    assert.equal(isTrouble(35, 200, { base_resp: { status_code: 0 } }), false)
    assert.equal(isTrouble(50, 429, { code: 1102 }), true)
    assert.equal(isTrouble(50, 429, { code: 1303 }), false)
  })

  it('is not recognized in invalid content', () => {
    for (const each of providers) {
      for (const body of [
        null,
        undefined,
        'text',
        [],
        { error: null },
        { code: {} },
        { error: { details: 1 } },
      ]) {
        assert.ok(!each.isKeyError?.(400, body), each.name)
      }
    }
  })
})

describe('an entry of /api/channel/types', () => {
  it('has exactly the fields of the contract', () => {
    const keys = 'type name base_url operations formats fields lists_models key_hint'.split(' ')
    const fieldKeys = 'name label required secret help'.split(' ')
    for (const each of providers) {
      const entry = typeEntry(each)
      assert.deepEqual(Object.keys(entry), keys)
      for (const field of entry.fields) {
        assert.deepEqual(Object.keys(field), fieldKeys)
        assert.equal(typeof field.required, 'boolean')
        assert.equal(typeof field.secret, 'boolean')
      }
      assert.equal(distinct(entry.fields.map(({ name }) => name)), entry.fields.length)
      assert.deepEqual(JSON.parse(JSON.stringify(entry)), entry)
    }
  })

  it('requires a base URL if and only if the vendor has no default', () => {
    for (const each of providers) {
      const required = typeEntry(each).fields.some(({ name, required }) => name === 'base_url' && required)
      assert.equal(required, each.baseUrl === undefined, each.name)
    }
    assert.deepEqual(typeEntry(plain).fields, [
      { name: 'base_url', label: 'Base URL', required: true, secret: false, help: 'URL of the server.' },
    ])
  })

  it('contains all fields of a vendor', () => {
    assert.deepEqual(typeEntry(provider(43)), {
      type: 43,
      name: 'DeepSeek',
      base_url: 'https://api.deepseek.com',
      operations: ['chat', 'completions'],
      formats: ['openai-chat', 'anthropic', 'responses', 'openai'],
      fields: [],
      lists_models: true,
      key_hint: 'sk-…',
    })
    assert.equal(typeEntry(provider(47)).base_url, '')
    assert.equal(typeEntry(provider(3)).lists_models, false)
  })
})
