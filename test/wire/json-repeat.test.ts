import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { repeatedName } from '../../src/wire/json-repeat.ts'
import { fc } from '../support/properties.ts'

const findRepeatedName = (text: string, opaque: readonly string[] = []) =>
  repeatedName(Buffer.from(text), name => !opaque.includes(name))

describe('a repeated name in one object', () => {
  it('is found at the top level, with any escapes', () => {
    assert.deepEqual(findRepeatedName('{"model":"a","mod\\u0065l":"b"}'), { path: 'model', isTopLevel: true })
    assert.deepEqual(findRepeatedName('{"__proto__":1,"__proto__":2}'), {
      path: '__proto__',
      isTopLevel: true,
    })
    assert.deepEqual(findRepeatedName('{ "a" : [1, "b:", {"x":{}}] ,\n"a":2}'), {
      path: 'a',
      isTopLevel: true,
    })
  })

  it('is found at any depth, with its path', () => {
    assert.equal(findRepeatedName('{"a":[[0],[{"b":{"c":1,"c":2}}]]}')?.path, 'a[1][0].b.c')
    assert.equal(
      findRepeatedName('{"messages":[{"role":"x"},{"role":"y","role":"z"}]}')?.path,
      'messages[1].role',
    )
  })

  it('is not found if the names are of different objects, or are strings', () => {
    for (const text of [
      '{}',
      '{"model":"a","x":{"model":"b"},"Model":"c"}',
      '[{"a":1},{"a":1}]',
      '{"a":"a","b":"a:","c":["a","a"]}',
    ])
      assert.equal(findRepeatedName(text), undefined, text)
  })

  it('is ignored in values that are not checked', () => {
    assert.equal(findRepeatedName('{"own":{"a":1,"a":2,"deep":{"b":1,"b":2}}}', ['own']), undefined)
    assert.equal(findRepeatedName('{"own":{"a":1,"a":2},"z":{"c":1,"c":2}}', ['own'])?.path, 'z.c')
  })

  it('is not found in JSON that was written from objects', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 4 }), value => {
        assert.equal(findRepeatedName(JSON.stringify({ value })), undefined)
      }),
    )
  })
})
