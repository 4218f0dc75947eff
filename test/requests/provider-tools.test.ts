import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { searchesOf } from '../../src/models/searching.ts'
import { requestedTools, toolBounds, withSearches } from '../../src/requests/provider-tools.ts'
import { editedBody, toolEdits } from '../../src/requests/tool-edits.ts'

const chat = { model: 'm', messages: [] }
const input = { model: 'm', input: 'hi' }
const contents = { contents: [] }
type Body = Readonly<Record<string, unknown>>
const toolsOf = (body: Body) =>
  requestedTools(body, (['input', 'contents'] as const).find(name => name in body) ?? 'messages')
const chargesOf = (body: Body) => toolsOf(body).list.map(({ field, charge }) => [field, charge])

describe('the tools that a request makes its provider run', () => {
  it('are recognized by their types, with and without a date', () => {
    const types = {
      web_search: 'web_search',
      web_search_preview_2025_03_11: 'web_search',
      web_search_20250305: 'web_search',
      x_search: 'web_search',
      file_search: 'file_search',
      collections_search: 'file_search',
      code_interpreter: 'code_interpreter',
      code_execution_20250825: 'code_interpreter',
      image_generation: 'image_generation',
      web_fetch_20250910: 'tokens',
      mcp: 'tokens',
      'openrouter:image_generation': undefined,
      live_search: undefined,
      advisor_20260301: undefined,
    }
    for (const [type, charge] of Object.entries(types))
      for (const body of [chat, input])
        assert.deepEqual(chargesOf({ ...body, tools: [{ type }] }), [['tools[0]', charge]], type)
  })

  it('exclude tools that the client runs', () => {
    const tools = [
      { type: 'function', function: { name: 'add' } },
      { type: 'custom', custom: { name: 'sql' } },
      { name: 'add', input_schema: {} },
      { type: 'bash_20250124', name: 'bash' },
      { type: 'text_editor_20250728', name: 'str_replace_based_edit_tool' },
      { type: 'computer_20250124', name: 'computer' },
      { type: 'memory_20250818', name: 'memory' },
      { type: 'local_shell' },
      { type: 'shell', environment: { type: 'local' } },
      { type: 'namespace', name: 'crm', tools: [{ type: 'function', name: 'find' }] },
    ]
    assert.deepEqual(chargesOf({ ...chat, tools }), [])
    assert.deepEqual(
      chargesOf({ ...contents, tools: [{ functionDeclarations: [] }, { computer_use: {} }] }),
      [],
    )
    for (const none of [null, false, undefined])
      assert.deepEqual(chargesOf({ ...chat, enable_search: none }), [])
  })

  it('are recognized if no list of tools names them', () => {
    const toolFields = {
      web_search_options: {},
      enable_search: true,
      force_search_enhancement: true,
      web_search: { enable: true },
      mcp_servers: [{ url: 'https://a.example' }],
      search_parameters: { mode: 'auto' },
      connectors: [{ id: 'web-search' }],
    }
    for (const [name, value] of Object.entries(toolFields))
      assert.equal(toolsOf({ ...chat, [name]: value }).list[0]?.field, name)
    assert.deepEqual(chargesOf({ ...chat, search_parameters: { mode: 'off' } }), [])
    assert.deepEqual(
      chargesOf({ ...chat, plugins: [{ id: 'web' }, { id: 'response-healing' }, { id: 'x' }] }),
      [
        ['plugins[0]', 'web_search'],
        ['plugins[2]', undefined],
      ],
    )
  })

  it('are members of a tool in Google’s format, in both spellings', () => {
    const tools = [
      { functionDeclarations: [], google_search: {} },
      { urlContext: {} },
      { enterpriseWebSearch: {} },
    ]
    assert.deepEqual(chargesOf({ ...contents, tools }), [
      ['tools[0].google_search', 'web_search'],
      ['tools[1].urlContext', 'tokens'],
      ['tools[2].enterpriseWebSearch', undefined],
    ])
  })

  it('are of an unknown type in an object that Google accepts as a list of one', () => {
    assert.deepEqual(chargesOf({ ...contents, tools: { google_search: {} } }), [['tools', undefined]])
    assert.deepEqual(chargesOf({ ...contents, tools: { functionDeclarations: [] } }), [])
  })

  it('are of an unknown type if a type is hidden in another spelling or among functions', () => {
    const odd = { type: 'function', TYPE: 'web_search', function: { name: 'add' } }
    const nested = { type: 'namespace', tools: [{ type: 'web_search' }] }
    for (const tool of [odd, nested, {}, { type: 7 }])
      assert.deepEqual(chargesOf({ ...chat, tools: [tool] }), [['tools[0]', undefined]])
  })

  it('include their search type if a price may depend on it', () => {
    const kindOf = (web_search_options: object) => toolsOf({ ...chat, web_search_options }).list[0]?.search
    assert.equal(kindOf({}), undefined)
    assert.equal(kindOf({ search_context_size: 'low' }), undefined)
    assert.equal(kindOf({ search_context_size: 'high' }), 'high')
    assert.equal(kindOf({ search_type: 'auto' }), 'pro')
    assert.equal(kindOf({ search_type: 'pro', search_context_size: 'medium' }), 'pro-medium')
    assert.equal(toolsOf({ ...input, tools: [{ type: 'web_search_preview' }] }).list[0]?.search, 'preview')
  })
})

describe('the possible usage of such tools', () => {
  const boundsOf = (body: Body, prompt = 1_000) => toolBounds(toolsOf(body), prompt, () => true)
  const search = { type: 'web_search_20250305', name: 'web_search' }

  it('is the calls that the request allows, each with its result, and the prompt read again after each', () => {
    // The prompt is read twice, and there is one result.
    assert.deepEqual(boundsOf({ ...chat, web_search_options: {} }), {
      units: { searches: 1 },
      inputTokens: 2_000 + 8_192,
    })
    // The prompt is read four times; the first result is read three times, the last one once.
    assert.deepEqual(boundsOf({ ...chat, tools: [{ ...search, max_uses: 3 }] }), {
      units: { searches: 3 },
      inputTokens: 4_000 + 6 * 8_192,
    })
  })

  it('does not grow with rounds that no provider runs', () => {
    const { inputTokens } = boundsOf({ ...chat, tools: [{ ...search, max_uses: 50 }] }, 0)
    assert.equal(inputTokens, (50 * 8_192 * 11) / 2)
  })

  it('is shared by all tools if one limit applies to them', () => {
    const tools = [{ type: 'web_search' }, { type: 'image_generation' }]
    const { units } = boundsOf({ ...input, tools, max_tool_calls: 3 })
    assert.deepEqual(units, { searches: 3, imageGenerationCalls: 3 })
    assert.deepEqual(boundsOf({ ...input, tools }).units, { searches: 10, imageGenerationCalls: 10 })
  })

  it('is only the prompt if no tool is sent', () => {
    const tools = toolsOf({ ...chat, tools: [search] })
    assert.deepEqual(
      toolBounds(tools, 1_000, () => false),
      { units: {}, inputTokens: 1_000 },
    )
  })

  it('includes a search with every request to models that always search', () => {
    for (const model of [
      'sonar',
      'perplexity/sonar-pro',
      'gpt-4o-search-preview-2025-03-11',
      'openai/gpt-5:online',
    ])
      assert.equal(searchesOf(model), 1, model)
    for (const model of ['gpt-4o', 'claude-sonnet-5', 'sonarr', 'online', 'search-preview'])
      assert.equal(searchesOf(model), 0, model)
    assert.deepEqual(withSearches({ units: {}, inputTokens: 1_000 }, 1).units, { searches: 1 })
  })
})

describe('a body after tools without a price are removed', () => {
  const edited = (body: Body, keptCharges: readonly string[] = []) => {
    const edits = toolEdits(body, toolsOf(body), {
      isSent: ({ charge }) => keptCharges.includes(String(charge)),
      takesMaxCalls: true,
    })
    return JSON.parse(JSON.stringify(editedBody(body, edits)))
  }
  const add = { type: 'function', name: 'add' }

  it('keeps the choice of a tool that remains', () => {
    const body = {
      ...input,
      tools: [add, { type: 'web_search' }],
      tool_choice: { type: 'function', name: 'add' },
    }
    assert.deepEqual(edited(body), { ...body, tools: [add] })
  })

  it('loses the choice of a removed tool, alone or among others', () => {
    const tools = [add, { type: 'web_search_preview' }]
    for (const tool_choice of [
      { type: 'web_search_preview' },
      {
        type: 'allowed_tools',
        mode: 'auto',
        tools: [{ type: 'function', name: 'add' }, { type: 'web_search_preview' }],
      },
    ])
      assert.deepEqual(edited({ ...input, tools, tool_choice }), { ...input, tools: [add] })
  })

  it('loses Google’s tool settings with the last tool', () => {
    const toolConfig = { functionCallingConfig: { mode: 'ANY' } }
    assert.deepEqual(edited({ ...contents, tools: [{ googleSearch: {} }], toolConfig }), contents)
    assert.deepEqual(edited({ ...contents, tools: { googleSearch: {} }, toolConfig }), contents)
  })

  it('gets a limit if tools with a per-call price remain, and only then', () => {
    const tools = [{ type: 'mcp', server_url: 'https://a.example' }, { type: 'web_search' }]
    assert.equal(edited({ ...input, tools }, ['tokens', 'web_search']).max_tool_calls, 10)
    assert.equal('max_tool_calls' in edited({ ...input, tools }, ['tokens']), false)
  })
})
