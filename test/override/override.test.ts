import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { OverrideError, ReturnedError } from '../../src/override/edit.ts'
import { MODES } from '../../src/override/operation.ts'
import { applyOperations, readOverride } from '../../src/override/override.ts'

type Json = Record<string, unknown>
type Around = { client?: Record<string, string>; headers?: Record<string, string>; facts?: Json }

const CHAT = { model: 'm', messages: [{ role: 'user', content: ' Hello World ' }], top_p: 1 }

function read(operations: readonly unknown[]) {
  const result = readOverride({ operations })
  assert.ok('value' in result, JSON.stringify(result))
  return result.value
}

function apply(operations: readonly unknown[], body: unknown = CHAT, around: Around = {}) {
  const bytes = Buffer.from(typeof body === 'string' ? body : JSON.stringify(body))
  const { client = {} } = around
  const applied = applyOperations(read(operations).operations, {
    bytes,
    headers: around.headers ?? {},
    facts: around.facts ?? {},
    clientHeader: name => client[name],
    fill: template => template.replaceAll('{api_key}', 'the-key'),
  })
  return { text: applied.bytes.toString(), headers: applied.headers }
}
const bodyAfter = (operations: readonly unknown[], body: unknown = CHAT, around: Around = {}) =>
  JSON.parse(apply(operations, body, around).text)

const faultOf = (override: Json) => {
  const result = readOverride(override)
  return 'fault' in result ? result.fault.path : undefined
}
const operationFault = (operation: unknown) =>
  faultOf({ operations: [operation] })?.replace('.operations.0', '')

describe('an override of a body', () => {
  it('sets, also missing members, and keeps existing ones if configured to', () => {
    const { a, top_p } = bodyAfter([
      { mode: 'set', path: 'a.b.c', value: [1, null] },
      { mode: 'set', path: 'top_p', value: 0.5, keep_origin: true },
    ])
    assert.deepEqual(a, { b: { c: [1, null] } })
    assert.equal(top_p, 1)
    assert.equal(bodyAfter([{ mode: 'set', path: 'top_p', value: null }]).top_p, null)
    assert.equal(
      bodyAfter([{ mode: 'set', path: 'messages.-1.content', value: 'x' }]).messages[0].content,
      'x',
    )
    assert.equal(bodyAfter([{ mode: 'set', path: 'a\\.b', value: 1 }])['a.b'], 1)
  })

  it('does not set members of a string, nor beyond the end of a list', () => {
    assert.deepEqual(
      bodyAfter([
        { mode: 'set', path: 'model2.x', value: 1, keep_origin: false },
        { mode: 'set', path: 'messages.0.content.x', value: 1 },
        { mode: 'set', path: 'messages.7', value: 1 },
      ]),
      { ...CHAT, model2: { x: 1 } },
    )
  })

  it('deletes, moves and copies', () => {
    const body = bodyAfter([
      { mode: 'delete', path: 'messages.0.role' },
      { mode: 'move', from: 'top_p', to: 'options.top_p' },
      { mode: 'copy', from: 'model', to: 'metadata.model' },
      { mode: 'copy', from: 'nothing', to: 'metadata.nothing' },
    ])
    assert.deepEqual(body, {
      model: 'm',
      messages: [{ content: ' Hello World ' }],
      options: { top_p: 1 },
      metadata: { model: 'm' },
    })
  })

  it('appends to strings, lists and objects', () => {
    const body = { text: 'b', list: [1], object: { a: 1, b: 1 }, number: 5 }
    const add = (mode: string, path: string, value: unknown, more = {}) =>
      bodyAfter([{ mode, path, value, ...more }], body)[path]
    assert.equal(add('prepend', 'text', 'a'), 'ab')
    assert.equal(add('append', 'text', 'c'), 'bc')
    assert.deepEqual(add('prepend', 'list', 0), [0, 1])
    assert.deepEqual(add('append', 'list', [2, 3]), [1, 2, 3])
    assert.deepEqual(add('append', 'object', { b: 2, c: 2 }), { a: 1, b: 2, c: 2 })
    assert.deepEqual(add('append', 'object', { b: 2, c: 2 }, { keep_origin: true }), { a: 1, b: 1, c: 2 })
    assert.equal(add('append', 'number', 1), 5)
    assert.equal(add('append', 'fresh', 'x'), 'x')
  })

  it('changes strings', () => {
    const content = (operation: Json) =>
      bodyAfter([{ path: 'messages.0.content', ...operation }]).messages[0].content
    assert.equal(content({ mode: 'trim_space' }), 'Hello World')
    assert.equal(content({ mode: 'to_lower' }), ' hello world ')
    assert.equal(content({ mode: 'to_upper' }), ' HELLO WORLD ')
    assert.equal(content({ mode: 'trim_prefix', value: ' Hello' }), ' World ')
    assert.equal(content({ mode: 'trim_suffix', value: 'World ' }), ' Hello ')
    assert.equal(content({ mode: 'ensure_prefix', value: '>' }), '> Hello World ')
    assert.equal(content({ mode: 'ensure_prefix', value: ' H' }), ' Hello World ')
    assert.equal(content({ mode: 'ensure_suffix', value: '<' }), ' Hello World <')
    assert.equal(content({ mode: 'replace', from: 'o', to: '$&' }), ' Hell$& W$&rld ')
    assert.equal(content({ mode: 'regex_replace', from: '(\\w+) (\\w+)', to: '$2 $1' }), ' World Hello ')
  })

  it('removes objects from lists, at any depth or at the first level only', () => {
    const body = {
      messages: [
        { content: [{ type: 'thinking' }, { type: 'text', text: 'a' }] },
        { type: 'thinking', weight: 2 },
      ],
      tools: [{ type: 'thinking' }],
    }
    assert.deepEqual(bodyAfter([{ mode: 'prune_objects', path: 'messages', value: 'thinking' }], body), {
      messages: [{ content: [{ type: 'text', text: 'a' }] }],
      tools: [{ type: 'thinking' }],
    })
    assert.deepEqual(
      bodyAfter(
        [{ mode: 'prune_objects', path: 'messages', value: { type: 'thinking', recursive: false } }],
        body,
      ).messages,
      [body.messages[0]],
    )
    const heavy = { conditions: [{ path: 'weight', mode: 'gte', value: 2 }] }
    assert.deepEqual(bodyAfter([{ mode: 'prune_objects', value: heavy }], body), {
      ...body,
      messages: [body.messages[0]],
    })
  })

  it('evaluates its conditions on the current body, and on the names of the model', () => {
    const holds = (conditions: readonly unknown[], logic?: string) =>
      bodyAfter([{ mode: 'set', path: 'done', value: true, conditions, ...(logic ? { logic } : {}) }], CHAT, {
        facts: { original_model: 'asked-thinking' },
      }).done === true
    const yes = { path: 'top_p', mode: 'gt', value: 0.5 }
    const no = { path: 'top_p', mode: 'lt', value: 1 }
    assert.equal(holds([yes, no]), true)
    assert.equal(holds([yes, no], 'AND'), false)
    assert.equal(holds([{ ...no, invert: true }]), true)
    assert.equal(holds([{ path: 'nothing', value: 1 }]), false)
    assert.equal(holds([{ path: 'nothing', value: 1, pass_missing_key: true }]), true)
    assert.equal(holds([{ path: 'original_model', mode: 'suffix', value: '-thinking' }]), true)
    assert.equal(holds([{ path: 'messages.0.content', mode: 'contains', value: 'World' }]), true)
    assert.equal(holds([{ path: 'messages.0.role', mode: 'prefix', value: 'sys' }]), false)
    assert.equal(holds([{ path: 'messages', mode: 'full', value: CHAT.messages }]), true)
    assert.deepEqual(
      bodyAfter([
        { mode: 'delete', path: 'top_p' },
        { mode: 'set', path: 'done', value: true, conditions: [yes] },
      ]).done,
      undefined,
    )
  })

  it('leaves every byte unchanged that it does not edit', () => {
    const bodyText = '{ "seed": 12345678901234567890, "a" : [1.0, {"b":1e2}],\n "top_p":1}'
    assert.equal(
      apply([{ mode: 'set', path: 'top_p', value: 2 }], bodyText).text,
      bodyText.replace('"top_p":1', '"top_p":2'),
    )
    assert.equal(apply([{ mode: 'delete', path: 'nothing.here' }], bodyText).text, bodyText)
  })

  it('supports members of any name', () => {
    const body = '{"__proto__":{"x":1},"constructor":{"y":[{"type":"t"}]}}'
    assert.equal(
      apply([{ mode: 'prune_objects', value: 't' }], body).text,
      '{"__proto__":{"x":1},"constructor":{"y":[]}}',
    )
    assert.equal(({} as Json).x, undefined)
  })

  it('sets, deletes, copies, moves and forwards headers', () => {
    const { headers } = apply(
      [
        { mode: 'set_header', path: 'X-Team', value: 'a' },
        { mode: 'set_header', path: 'x-old', value: 'b', keep_origin: true },
        { mode: 'delete_header', path: 'X-Gone' },
        { mode: 'copy_header', from: 'X-Session', to: 'x-copy' },
        { mode: 'move_header', from: 'x-from', to: 'x-to' },
        { mode: 'pass_headers', value: ['X-Session', 'x-absent'] },
        { mode: 'set_header', path: 'authorization', value: 'Bearer {api_key}' },
      ],
      CHAT,
      { client: { 'x-session': 's1' }, headers: { 'x-old': 'kept', 'x-gone': '1', 'x-from': '2' } },
    )
    assert.deepEqual(headers, {
      'x-old': 'kept',
      'x-team': 'a',
      'x-copy': 's1',
      'x-to': '2',
      'x-session': 's1',
      authorization: 'Bearer the-key',
    })
  })

  it('synchronizes a header and a member', () => {
    const sync = { mode: 'sync_fields', from: 'header:x-session', to: 'json:prompt_cache_id' }
    assert.equal(bodyAfter([sync], CHAT, { client: { 'x-session': 's1' } }).prompt_cache_id, 's1')
    assert.equal(apply([sync], { ...CHAT, prompt_cache_id: 's2' }).headers['x-session'], 's2')
    assert.equal(apply([sync], { ...CHAT, prompt_cache_id: 'a\r\nb: c' }).headers['x-session'], undefined)
  })

  it('responds with an error if configured to', () => {
    const value = { message: 'not here', status_code: 422, code: 'nope', skip_retry: false }
    assert.throws(
      () => apply([{ mode: 'return_error', value }]),
      (error: ReturnedError) =>
        error instanceof ReturnedError &&
        error.response.status === 422 &&
        !error.response.isFinal &&
        error.response.code === 'nope',
    )
  })

  it('replaces by a regular expression as JavaScript does', () => {
    const replaced = (text: string, from: string, to: string) =>
      bodyAfter([{ mode: 'regex_replace', path: 'text', from, to }], { text }).text
    for (const [text, from, to] of [
      ['a b c d', '(\\w+) (\\w+)', '$2 $1'],
      ['abc', 'b', '[$&$$]'],
      ['abc', '(?<x>b)', '$<x>!$<y>'],
      ['abc', 'b', '$<x>'],
      ['abc', '(b)', '$1x$01$0$10$2'],
      ['abc', 'x*', '-'],
      ['a😀b', '.', '<$&>'],
      ['ac', '(b)?c', '[$1]'],
    ] as const)
      assert.equal(replaced(text, from, to), text.replace(new RegExp(from, 'gu'), to), from)
    assert.equal(replaced('Ab', '(?i)a', 'x'), 'xb')
  })

  it('accepts an expression that a backtracking engine never finishes', () => {
    const nested = { mode: 'regex_replace', path: 'text', from: '(a+)+$', to: '' }
    const text = `${'a'.repeat(40)}b`
    assert.equal(bodyAfter([nested], { text }).text, text)
  })

  it('stops an expression that takes quadratic time or gets a text that is too long', () => {
    const quadratic = { mode: 'regex_replace', path: 'text', from: 'x*y|x', to: 'z' }
    assert.throws(() => apply([quadratic], { text: 'x'.repeat(100_000) }), /longer than 50 ms/)
    assert.throws(() => apply([quadratic], { text: '-'.repeat(262_145) }), /more than 262144 characters/)
    assert.throws(() => apply([quadratic], { text: '-'.repeat(262_145) }), OverrideError)
  })

  it('stops a request that would grow without limit', () => {
    const doubling = Array.from({ length: 50 }, (_, index) => ({
      mode: 'copy',
      from: 'a',
      to: `a.x${index}`,
    }))
    assert.throws(() => apply(doubling, { a: { text: 'x'.repeat(1000) } }), OverrideError)
    const swelling = { mode: 'replace', path: 'text', from: 'x', to: 'y'.repeat(10_000) }
    assert.throws(() => apply([swelling], { text: 'x'.repeat(100_000) }), OverrideError)
  })

  it('is refused with the path of the error', () => {
    for (const name of ['model', 'stream', 'stream_options']) assert.equal(faultOf({ [name]: 1 }), `.${name}`)
    assert.equal(operationFault({ mode: 'set', path: 'model', value: 'x' }), '.path')
    assert.equal(operationFault({ mode: 'to_lower', path: 'model' }), '.path')
    assert.equal(operationFault({ mode: 'copy', from: 'a', to: 'stream' }), '.to')
    assert.equal(operationFault({ mode: 'move', from: 'stream_options.x', to: 'b' }), '.from')
    assert.equal(operationFault({ mode: 'delete', path: 'stream_options.include_usage' }), '.path')
    assert.equal(operationFault({ mode: 'delete', path: 'stream_options' }), undefined)
    assert.equal(operationFault({ mode: 'sync_fields', from: 'header:a', to: 'json:model' }), '.to')
    assert.equal(operationFault({ mode: 'unknown' }), '.mode')
    assert.equal(operationFault('set'), '')
    assert.equal(operationFault({ mode: 'set', path: 'a' }), '.value')
    assert.equal(operationFault({ mode: 'set', path: 'a..b', value: 1 }), '.path')
    assert.equal(operationFault({ mode: 'set', path: '__proto__.x', value: 1 }), '.path')
    assert.equal(operationFault({ mode: 'set', path: 'a', value: 1, keep_orgin: true }), '.keep_orgin')
    assert.equal(operationFault({ mode: 'set', path: 'a', value: 1, logic: 'XOR' }), '.logic')
    assert.equal(operationFault({ mode: 'regex_replace', path: 'a', from: '(' }), '.from')
    assert.equal(operationFault({ mode: 'regex_replace', path: 'a', from: '(a)\\1' }), '.from')
    assert.equal(operationFault({ mode: 'regex_replace', path: 'a', from: 'a'.repeat(501) }), '.from')
    assert.equal(operationFault({ mode: 'regex_replace', path: 'a', from: 'b', to: "$'" }), '.to')
    assert.equal(
      operationFault({ mode: 'return_error', value: { message: 'x', status_code: 200 } }),
      '.value.status_code',
    )
    assert.equal(operationFault({ mode: 'set_header', path: 'Content-Length', value: '1' }), '.path')
    assert.equal(operationFault({ mode: 'set_header', path: 'x', value: 'a\r\nb' }), '.value')
    assert.equal(operationFault({ mode: 'set_header', path: 'x-api-key', value: 'typed-in' }), '.value')
    assert.equal(operationFault({ mode: 'copy_header', from: 'Authorization', to: 'x' }), '.from')
    assert.equal(operationFault({ mode: 'pass_headers', value: ['cookie'] }), '.value')
    const condition = (fields: unknown) => operationFault({ mode: 'delete', path: 'a', conditions: [fields] })
    assert.equal(condition({ path: 'a', mode: 'gt', value: '1' }), '.conditions.0.value')
    assert.equal(condition({ path: 'a', mode: 'like', value: '1' }), '.conditions.0.mode')
    assert.equal(condition({ mode: 'full', value: '1' }), '.conditions.0.path')
    assert.equal(faultOf({ operations: Array(101).fill({ mode: 'delete', path: 'a' }) }), '.operations')
  })

  it('supports every mode of the reference', () => {
    assert.equal(MODES.length, 23)
  })
})
