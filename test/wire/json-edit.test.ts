import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { JsonError } from '../../src/wire/json.ts'
import { editElements, editTopLevel, elements, topLevel } from '../../src/wire/json-edit.ts'
import { fc } from '../support/properties.ts'

const edited = (text: string, edits: Record<string, unknown>) =>
  editTopLevel(Buffer.from(text), edits).toString()

const keysOf = (bytes: Buffer) => topLevel(bytes).map(({ key }) => key)

describe('an edit of array elements', () => {
  const list = '[ {"a":1e400 , "b":2},3 , {"c":[4,"]"]} ]'
  const after = (edits: Parameters<typeof editElements>[2]) =>
    editElements(Buffer.from(list), 0, edits)?.toString()

  it('removes some and changes members of others, and leaves the rest byte for byte', () => {
    assert.equal(after(new Map([[1, undefined]])), '[{"a":1e400 , "b":2},{"c":[4,"]"]}]')
    assert.equal(
      after(
        new Map([
          [0, { b: undefined, d: 5 }],
          [2, undefined],
        ]),
      ),
      '[{"a":1e400,"d":5},3]',
    )
  })

  it('leaves nothing if all are removed', () => {
    assert.equal(after(new Map([0, 1, 2].map(index => [index, undefined]))), undefined)
  })

  it('can be set as a member without being parsed', () => {
    assert.equal(edited('{"tools":[1]}', { tools: Buffer.from('[1e400]') }), '{"tools":[1e400]}')
    assert.equal(edited('{}', { tools: Buffer.from('[1e400]') }), '{"tools":[1e400]}')
  })
})

describe('an edit of a JSON body', () => {
  it('changes the value of a member and no other byte', () => {
    assert.equal(
      edited('{ "model" : "a" ,\n "n":1 }', { model: 'org/b-Ω' }),
      '{ "model" : "org/b-Ω" ,\n "n":1 }',
    )
  })

  it('leaves numbers unchanged that no parser can represent', () => {
    const text = '{"seed":1234567890123456789012345678901234567890,"model":"a","top":1e400,"t":1.00,"z":-0}'
    assert.equal(edited(text, { model: 'b' }), text.replace('"a"', '"b"'))
  })

  it('adds missing members at the end', () => {
    assert.equal(edited('{"a":1}', { b: { c: [2] } }), '{"a":1,"b":{"c":[2]}}')
    assert.equal(edited('{"a":1 }\n', { b: 2, c: 3 }), '{"a":1,"b":2,"c":3 }\n')
    assert.equal(edited(' { } ', { a: 1 }), ' {"a":1 } ')
  })

  it('removes a member with its comma, at any position', () => {
    const text = '{"a":1, "b":[2,{}], "c":"3"}'
    assert.equal(edited(text, { a: undefined }), '{"b":[2,{}], "c":"3"}')
    assert.equal(edited(text, { b: undefined }), '{"a":1, "c":"3"}')
    assert.equal(edited(text, { c: undefined }), '{"a":1, "b":[2,{}]}')
    assert.equal(edited(text, { a: undefined, c: undefined }), '{"b":[2,{}]}')
    assert.equal(edited(text, { a: undefined, b: undefined, c: undefined, d: 4 }), '{"d":4}')
    assert.equal(edited(text, { absent: undefined }), text)
  })

  it('sets false, 0, null and an empty string, which are values', () => {
    assert.equal(
      edited('{"a":1,"b":1,"c":1,"d":1}', { a: false, b: 0, c: null, d: '' }),
      '{"a":false,"b":0,"c":null,"d":""}',
    )
  })

  it('recognizes a key with any escapes', () => {
    assert.equal(edited('{"mod\\u0065l":"a"}', { model: 'b' }), '{"mod\\u0065l":"b"}')
    assert.equal(edited('{"a\\"b":1,"a\\\\":2}', { 'a"b': 3, 'a\\': 4 }), '{"a\\"b":3,"a\\\\":4}')
  })

  it('changes no nested member of the same name', () => {
    const text = '{"x":{"model":"a","y":[{"model":"}"}]},"text":"\\"model\\":\\"c\\" {[","model":"d"}'
    assert.equal(edited(text, { model: 'e' }), text.replace('"d"', '"e"'))
  })

  it('changes every occurrence of a repeated key, so that no parser finds the old value', () => {
    assert.equal(edited('{"model":"a","n":1,"model":"b"}', { model: 'c' }), '{"model":"c","n":1,"model":"c"}')
    assert.equal(edited('{"model":"a","n":1,"model":"b"}', { model: undefined }), '{"n":1}')
  })

  it('treats the names of inherited members like any other', () => {
    const text = '{"__proto__":{"x":1},"constructor":2,"toString":3}'
    assert.equal(
      edited(text, { model: 'a' }),
      '{"__proto__":{"x":1},"constructor":2,"toString":3,"model":"a"}',
    )
    assert.equal(({} as Record<string, unknown>).x, undefined)
  })

  it('finds the end of long strings, with escapes at any position', () => {
    for (const length of [62, 63, 64, 65, 66, 127, 128, 129, 1_000]) {
      for (const escaped of ['', '\\\\', '\\"', '\\\\\\"', '\\\\\\\\']) {
        const text = `{"long":"${'x'.repeat(length)}${escaped}${'y'.repeat(80)}${escaped}","model":"a"}`
        assert.equal(edited(text, { model: 'b' }), text.replace('"a"', '"b"'))
      }
    }
  })

  it('refuses values that are not objects, or are truncated', () => {
    for (const text of [
      '',
      '[]',
      '1',
      '"a"',
      '{',
      '{"a',
      '{"a"',
      '{"a":',
      '{"a":"b',
      '{"a":[1',
      '{"a":1',
      '{a:1}',
    ]) {
      assert.throws(() => topLevel(Buffer.from(text)), JsonError, text)
    }
  })
})

describe('the keys of a JSON body', () => {
  it('keep their order, are unescaped, and include repetitions', () => {
    assert.deepEqual(keysOf(Buffer.from('{"b":1,"a":{"c":2},"\\u0062":3,"é":4,"":5}')), [
      'b',
      'a',
      'b',
      'é',
      '',
    ])
  })
})

const key = fc.oneof(fc.constantFrom('model', 'stream', '__proto__', 'a"b', '\\', 'é', ''), fc.string())
const value = fc.jsonValue({ maxDepth: 3 })
// A parser reads them back unchanged, except -0.
const json = value.map(each => JSON.parse(JSON.stringify(each)) as unknown)
const object = fc.dictionary(key, json, { maxKeys: 8 })
const edits = fc.dictionary(key, fc.option(json, { nil: undefined }), { maxKeys: 5 })
const layout = fc.constantFrom(undefined, 1, '\t', ' \r\n')

describe('for any body and edits', () => {
  it('the result parses as if the object itself had been changed', () => {
    fc.assert(
      fc.property(object, edits, layout, (object, edits, layout) => {
        const text = JSON.stringify(object, null, layout)
        const expected: Record<string, unknown> = { ...object, ...edits }
        for (const name of Object.keys(edits)) if (edits[name] === undefined) delete expected[name]
        const after = edited(text, edits)
        assert.deepEqual(JSON.parse(after), JSON.parse(JSON.stringify(expected)))
      }),
      { numRuns: 1_000 },
    )
  })

  it('every member that is not edited keeps its bytes and its position', () => {
    const rawMembers = (bytes: Buffer, edits: object) =>
      topLevel(bytes)
        .filter(({ key }) => !Object.hasOwn(edits, key))
        .map(({ start, end }) => bytes.toString('latin1', start, end))
    fc.assert(
      fc.property(object, edits, layout, (object, edits, layout) => {
        const before = Buffer.from(JSON.stringify(object, null, layout))
        const after = editTopLevel(before, edits)
        assert.deepEqual(rawMembers(after, edits), rawMembers(before, edits))
      }),
      { numRuns: 1_000 },
    )
  })

  it('no edits return the same bytes', () => {
    fc.assert(
      fc.property(object, layout, (object, layout) => {
        const text = ` ${JSON.stringify(object, null, layout)}\n`
        assert.equal(edited(text, {}), text)
        assert.deepEqual(keysOf(Buffer.from(text)), Object.keys(JSON.parse(text)))
      }),
    )
  })
})

describe('the elements of a list', () => {
  it('are found by their positions, for any values', () => {
    fc.assert(
      fc.property(fc.array(fc.jsonValue()), fc.constantFrom(undefined, 1, '\t'), (list, layout) => {
        const bytes = Buffer.from(JSON.stringify(list, null, layout))
        const parsedElements = elements(bytes, 0).map(({ start, end }) =>
          JSON.parse(bytes.toString('utf8', start, end)),
        )
        assert.deepEqual(JSON.stringify(parsedElements), JSON.stringify(list))
      }),
    )
  })

  it('are none if there is no list', () => {
    for (const text of ['{}', '"[1]"', '7', '']) assert.deepEqual(elements(Buffer.from(text), 0), [])
  })
})
