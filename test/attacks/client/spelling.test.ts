import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { type HostileClient, openHostileClient } from '../../support/hostile-client.ts'
import { soundForm, wavOf } from '../../support/media.ts'

const GEMINI = 24
const ANTHROPIC = 14
const MESSAGES = '"messages":[{"role":"user","content":"hi"}]'
const CONTENTS = '"contents":[{"role":"user","parts":[{"text":"hi"}]}]'

describe('a request with ambiguous member names', () => {
  let client: HostileClient
  let key: string
  let model: string
  before(async () => {
    client = await openHostileClient()
    const offered = await client.offerTo()
    key = offered.key
    model = offered.model
    await client.addChannel({
      name: 'gemini',
      type: GEMINI,
      base_url: client.provider.url,
      models: ['gem'],
      model_mapping: { gem: 'seen-as' },
    })
    await client.addChannel({
      name: 'anthropic',
      type: ANTHROPIC,
      base_url: client.provider.url,
      models: ['claude'],
      model_mapping: { claude: 'seen-as' },
    })
    for (const name of ['gem', 'claude'])
      await client.must(client.gateway.api('POST', '/api/price/', { model: name, input: 1, output: 2 }))
    const wide = await client.open()
    key = wide.key
  })
  after(() => client.close())

  const body = (members: string) => `{"model":"${model}",${members}}`

  async function refused(path: string, text: string, param: string | null, code = 'invalid_parameter') {
    const before = client.posted().length
    const reply = await client.postText(path, key, text)
    assert.equal(reply.status, 400, `${text}: ${reply.text}`)
    assert.equal(client.posted().length, before, 'nothing is sent')
    const { error } = reply.body
    if (error.code !== undefined && typeof error.code === 'string') {
      assert.equal(error.code, code, text)
      assert.equal(error.param, param, text)
    } else assert.ok(error.message.includes(param ?? ''), `${error.message} names ${param}`)
  }

  const chat = (members: string, param: string) =>
    refused('/v1/chat/completions', body(`${MESSAGES},${members}`), param)

  it('is refused for another case of a billing field, because some servers ignore case', async () => {
    await chat('"Model":"dear"', 'Model')
    await chat('"Max_Tokens":90000', 'Max_Tokens')
    await chat('"N":9', 'N')
    await chat('"STREAM":true', 'STREAM')
    await chat('"Service_Tier":"priority"', 'Service_Tier')
    await chat('"Tools":[{"type":"web_search"}]', 'Tools')
  })

  it('is refused for letters that Unicode case-folds to others, however they are escaped', async () => {
    await chat('"max_to\\u212aens":90000', 'max_to\u212aens')
    await chat('"max_to\u212aens":90000', 'max_to\u212aens')
    await chat('"\\u017ftream":true', '\u017ftream')
    await chat('"m\\uff4fdel":"dear"', 'm\uff4fdel')
    await chat('"model\\u0000":"dear"', 'model\u0000')
  })

  it('is refused for dashes, underscores and camel case in place of snake case', async () => {
    await chat('"max-tokens":90000', 'max-tokens')
    await chat('"maxTokens":90000', 'maxTokens')
    await chat('"maxtokens":90000', 'maxtokens')
    await chat('"best of":9', 'best of')
  })

  it('is refused for two members that differ only in spelling', async () => {
    await chat('"custom_field":1,"customField":2', 'customField')
    await chat('"service_tier":"flex","serviceTier":"priority"', 'serviceTier')
  })

  it('is refused for another spelling inside an object of the format', async () => {
    await chat(
      '"stream_options":{"include_usage":true,"Include_Usage":false}',
      'stream_options.Include_Usage',
    )
    await chat('"tools":[{"type":"function","Type":"web_search"}]', 'tools[0].Type')
    await chat('"reasoning":{"Max_Tokens":9000}', 'reasoning.Max_Tokens')
    await refused(
      '/v1/chat/completions',
      body('"messages":[{"role":"user","content":"hi","Content":"a long text"}]'),
      'messages[0].Content',
    )
    await refused(
      '/v1/messages',
      `{"model":"claude","max_tokens":9,${MESSAGES},"thinking":{"type":"enabled","Budget_Tokens":9000}}`,
      'thinking.Budget_Tokens',
    )
  })

  it('is refused for a repeated name in an object of the format', async () => {
    await chat(
      '"stream_options":{"include_usage":true,"include_usage":false}',
      'stream_options.include_usage',
    )
    await chat('"tools":[{"type":"function","ty\\u0070e":"web_search"}]', 'tools[0].type')
    await refused(
      '/v1/chat/completions',
      body('"messages":[{"role":"user","content":"hi","content":"a long text"}]'),
      'messages[0].content',
    )
  })

  it('is refused as invalid JSON for a repeated name at the top level', async () => {
    await refused('/v1/chat/completions', body(`${MESSAGES},"model":"dear"`), null, 'invalid_json')
    await refused('/v1/chat/completions', body(`${MESSAGES},"mod\\u0065l":"dear"`), null, 'invalid_json')
  })

  it('is refused for a billing field inside an object that servers merge into the body', async () => {
    await chat('"extra_body":{"model":"dear"}', 'extra_body.model')
    await chat('"extra_body":{"MODEL":"dear"}', 'extra_body.MODEL')
    await chat('"extra_body":{"google":{"cached_content":"c"}}', 'extra_body.google.cached_content')
    await chat('"options":{"num_predict":90000}', 'options.num_predict')
    for (const name of ['enable_search', 'search_parameters', 'plugins', 'web_search'])
      await chat(`"extra_body":{"${name}":{"a":1}}`, `extra_body.${name}`)
    await refused(
      '/v1/images/generations',
      body('"prompt":"p","extra_body":{"quality":"hd"}'),
      'extra_body.quality',
    )
  })

  it('is refused in every format and operation', async () => {
    const cases: readonly (readonly [path: string, text: string, param: string])[] = [
      ['/v1/completions', body('"prompt":"hi","Best_Of":9'), 'Best_Of'],
      ['/v1/responses', body('"input":"hi","Max_Output_Tokens":9000'), 'Max_Output_Tokens'],
      ['/v1/responses', body('"input":"hi","Previous_Response_Id":"r"'), 'Previous_Response_Id'],
      ['/v1/responses/input_tokens', body('"input":"hi","Input":"a long text"'), 'Input'],
      ['/v1/messages', `{"model":"claude","Model":"dear","max_tokens":9,${MESSAGES}}`, 'Model'],
      ['/v1/messages/count_tokens', `{"model":"claude","Model":"dear",${MESSAGES}}`, 'Model'],
      ['/v1/embeddings', body('"input":"hi","Input":["many"]'), 'Input'],
      ['/v1/audio/speech', body('"input":"hi","voice":"alloy","Input":"a long text"'), 'Input'],
      ['/v1/moderations', body('"input":"hi","MODEL":"dear"'), 'MODEL'],
      ['/v1/rerank', body('"query":"q","documents":["d"],"Documents":["a","b"]'), 'Documents'],
      ['/v1/images/generations', body('"prompt":"p","Size":"1792x1024"'), 'Size'],
      ['/v1/images/edits', body('"prompt":"p","image":"https://img.example/a.png","N":9'), 'N'],
      ['/v1/videos', body('"prompt":"p","seconds":"4","Seconds":"60"'), 'Seconds'],
      ['/v1/videos', body('"prompt":"p","metadata":{"Model":"dear"}'), 'metadata.Model'],
      ['/v1/videos', body('"prompt":"p","metadata":"{\\"Model\\":\\"dear\\"}"'), 'metadata.Model'],
      ['/v1/videos', body('"prompt":"p","metadata":{"mode":"std","mode":"pro"}'), 'metadata.mode'],
      [
        '/v1/videos',
        body('"prompt":"p","metadata":"{\\"mode\\":\\"std\\",\\"mode\\":\\"pro\\"}"'),
        'metadata.mode',
      ],
      [
        '/v1/videos',
        body('"prompt":"p","metadata":{"aspectRatio":"1:1","aspect_ratio":"16:9"}'),
        'metadata.aspect_ratio',
      ],
    ]
    for (const [path, text, param] of cases) await refused(path, text, param)
  })

  const gemini = (members: string, param: string) =>
    refused('/v1beta/models/gem:generateContent', `{${CONTENTS},${members}}`, param)

  it('is refused for camel beside snake case, and for a repeated name, in the format that accepts both', async () => {
    await gemini('"generationConfig":{"maxOutputTokens":9},"generation_config":{}', 'generation_config')
    await gemini(
      '"generationConfig":{"maxOutputTokens":9,"max_output_tokens":60000}',
      'generationConfig.max_output_tokens',
    )
    await gemini(
      '"generationConfig":{"maxOutputTokens":9,"maxOutputTokens":60000}',
      'generationConfig.maxOutputTokens',
    )
    await gemini(
      '"generationConfig":{"candidateCount":1,"CandidateCount":8}',
      'generationConfig.CandidateCount',
    )
    await refused(
      '/v1beta/models/gem:batchEmbedContents',
      '{"requests":[{"model":"models/gem","Model":"models/dear","content":{"parts":[{"text":"hi"}]}}]}',
      'requests[0].Model',
    )
  })

  it('is refused for ambiguous field names in a form', async () => {
    const forms: readonly (readonly [path: string, fields: Record<string, string>, param: string])[] = [
      ['/v1/audio/transcriptions', { model, Model: 'dear' }, 'Model'],
      ['/v1/audio/translations', { model, 'MODEL[]': 'dear' }, 'MODEL[]'],
      ['/v1/images/edits', { model, prompt: 'p', N: '9' }, 'N'],
      ['/v1/images/variations', { model, ' size': '1792x1024' }, ' size'],
      ['/v1/videos', { model, prompt: 'p', 'metadata[Model]': 'dear' }, 'metadata[Model]'],
      ['/v1/videos', { model, prompt: 'p', 'metadata[input][model]': 'dear' }, 'metadata[input][model]'],
      ['/v1/videos', { model, prompt: 'p', 'metadata.Model': 'dear' }, 'metadata.Model'],
      ['/v1/videos', { model, prompt: 'p', metadata: '{"Model":"dear"}' }, 'metadata.Model'],
      [
        '/v1/videos',
        { model, prompt: 'p', 'metadata[style]': 'a', 'metadata[STYLE]': 'b' },
        'metadata[STYLE]',
      ],
    ]
    for (const [path, fields, param] of forms) {
      const before = client.posted().length
      const reply = await client.post(path, key, soundForm(fields, /audio/.test(path) ? wavOf(1) : undefined))
      assert.equal(reply.status, 400, `${param}: ${reply.text}`)
      assert.equal(reply.body.error.code, 'invalid_parameter')
      assert.equal(reply.body.error.param, param)
      assert.equal(client.posted().length, before)
    }
  })

  it('is refused for a repeated form field that is not a list', async () => {
    const form = soundForm({ model, seconds: ['4', '60'], prompt: 'p' })
    const reply = await client.post('/v1/videos', key, form)
    assert.equal(reply.status, 400, reply.text)
    assert.equal(reply.body.error.param, 'seconds')
    const twice = await client.post(
      '/v1/audio/transcriptions',
      key,
      soundForm({ model, quality: ['a', 'b'] }, wavOf(1)),
    )
    assert.equal(twice.status, 400, twice.text)
    assert.equal(twice.body.error.param, 'quality')
    const beside = await client.post(
      '/v1/audio/transcriptions',
      key,
      soundForm({ model, file: 'text' }, wavOf(1)),
    )
    assert.equal(beside.status, 400, beside.text)
    assert.equal(beside.body.error.param, 'file')
  })

  it('is refused if a model is named deep inside vendor-specific fields', async () => {
    await refused('/v1/videos', body('"prompt":"p","metadata":{"input":{"model_name":"dear"}}'), 'input')
  })
})

describe('a request with unambiguous names', () => {
  let client: HostileClient
  before(async () => {
    client = await openHostileClient()
  })
  after(() => client.close())

  it('may use any names in its own data: schemas, arguments, metadata', async () => {
    const { model, key } = await client.offerTo()
    const own = '{"Model":1,"model":2,"maxTokens":3,"max_tokens":4,"a":5,"a":6}'
    const schema = `{"type":"object","properties":${own}}`
    const call = '{"id":"c","type":"function","function":{"name":"f","arguments":"{\\"Model\\":1}"}}'
    const members = [
      `"messages":[{"role":"user","content":"hi"},{"role":"assistant","tool_calls":[${call}]},{"role":"tool","tool_call_id":"c","content":"x"}]`,
      `"tools":[{"type":"function","function":{"name":"f","parameters":${schema}}}]`,
      '"metadata":{"Model":"mine","model":"yours"}',
      `"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":${schema}}}`,
      `"chat_template_kwargs":${own}`,
    ]
    const text = `{"model":"${model}",${members.join(',')}}`
    const reply = await client.postText('/v1/chat/completions', key, text)
    assert.equal(reply.status, 200, reply.text)
  })

  it('may give a tool of another format arguments of any name', async () => {
    await client.addChannel({
      name: 'anthropic',
      type: ANTHROPIC,
      base_url: client.provider.url,
      models: ['claude'],
    })
    await client.must(client.gateway.api('POST', '/api/price/', { model: 'claude', input: 1, output: 2 }))
    const { key } = await client.open()
    const text = `{"model":"claude","max_tokens":9,"messages":[{"role":"user","content":"hi"},
      {"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{"Model":1,"N":2,"userId":3,"user_id":4}}]},
      {"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"x"}]}],
      "tools":[{"name":"f","input_schema":{"type":"object","properties":{"Model":{},"N":{}}}}]}`
    const reply = await client.postText('/v1/messages', key, text)
    assert.equal(reply.status, 200, reply.text)
  })

  it('may use camel or snake case if the format accepts both', async () => {
    await client.addChannel({
      name: 'gemini',
      type: GEMINI,
      base_url: client.provider.url,
      models: ['gem'],
      model_mapping: { gem: 'seen-as' },
    })
    await client.must(client.gateway.api('POST', '/api/price/', { model: 'gem', input: 1, output: 2 }))
    const { key } = await client.open()
    for (const config of [
      '"generationConfig":{"maxOutputTokens":9,"candidateCount":1,"thinkingConfig":{"thinkingBudget":5}}',
      '"generation_config":{"max_output_tokens":9,"candidate_count":1,"thinking_config":{"thinking_budget":5}}',
    ]) {
      const reply = await client.postText(
        '/v1beta/models/gem:generateContent',
        key,
        `{${CONTENTS},${config}}`,
      )
      assert.equal(reply.status, 200, reply.text)
    }
  })

  it('may repeat the model of its path in the body, also if the channel maps and overrides it', async () => {
    const { model, key } = await client.offerTo({ type: GEMINI, param_override: { labels: { team: 'a' } } })
    const content = '"content":{"parts":[{"text":"hi"}]}'
    const cases = [
      ['generateContent', `{"model":"models/${model}",${CONTENTS}}`],
      ['embedContent', `{"model":"models/${model}",${content}}`],
      ['batchEmbedContents', `{"requests":[{"model":"models/${model}",${content}}]}`],
    ] as const
    for (const [method, text] of cases) {
      const reply = await client.postText(`/v1beta/models/${model}:${method}`, key, text)
      assert.equal(reply.status, 200, `${method}: ${reply.text}`)
      assert.ok(!client.posted().at(-1)?.text.includes(model), method)
    }
  })
})
