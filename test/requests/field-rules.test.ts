import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { DECISIVE, foldName, ROUTING_FIELDS } from '../../src/requests/field-names.ts'
import { type NameRules, nameFault } from '../../src/requests/field-rules.ts'
import { parseCounted } from '../../src/wire/json.ts'
import { readJson } from '../../src/wire/json-skim.ts'
import { law } from '../support/laws.ts'
import { clientRequests } from '../support/recordings.ts'

const faultIn = (text: string, rules: NameRules = 'snake') => {
  const bytes = Buffer.from(text)
  const { value, names } = parseCounted(bytes)
  return nameFault({ value: value as Record<string, unknown>, names, bytes }, rules)
}

describe('a folded name', () => {
  it('is the same for all spellings that some server treats as equal', () => {
    for (const name of [
      'MAX_TOKENS',
      'maxTokens',
      'max-tokens',
      ' max_tokens',
      'max_to\u212aens',
      'max_token\u017f',
      '\uff4dax_tokens',
      'max_tokens\0x',
    ])
      assert.equal(foldName(name), 'maxtokens', JSON.stringify(name))
    assert.equal(foldName('t\u0131er'), 'tier')
    assert.equal(foldName('T\u0130ER'), 'tier')
  })

  it('differs for names that no server treats as equal', () => {
    for (const name of ['max_token', 'mäx_tokens', 'max_tokens_2', 'm\u0430x_tokens'])
      assert.notEqual(foldName(name), 'maxtokens')
  })
})

describe('the names of a request', () => {
  it('are accepted as in the table, in camel case only if a format supports it', () => {
    for (const name of [...Object.values(DECISIVE).flat(), ...ROUTING_FIELDS]) {
      const camel = name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())
      assert.equal(faultIn(`{"${name}":1}`), undefined, name)
      assert.equal(faultIn(`{"${name}":1}`, 'either'), undefined, name)
      const other = name.toUpperCase()
      assert.equal(faultIn(`{"${other}":1}`)?.param, other)
      assert.equal(faultIn(`{"${other}":1}`, 'either')?.param, other)
      if (camel === name) continue
      const isModel = (DECISIVE.model as readonly string[]).includes(name)
      assert.equal(faultIn(`{"${camel}":1}`, 'either')?.param, isModel ? camel : undefined)
      assert.equal(faultIn(`{"${name}":1,"${camel}":1}`, 'either')?.param, camel)
      assert.equal(faultIn(`{"${camel}":1,"${name}":1}`, 'either')?.param, isModel ? camel : name)
    }
  })

  it('are counted in bodies of any size, with texts of any length', async () => {
    const long = `"${'x'.repeat(3_000)}"`
    const many = Array.from({ length: 600 }, () => `{"role":"user","content":${long}}`).join(',')
    for (const isSkimmed of [true, false]) {
      const bytes = Buffer.from(`{"model":"m","messages":[${many}]}`)
      const { value, names } = await readJson(bytes, isSkimmed)
      assert.equal(nameFault({ value: value as Record<string, unknown>, names, bytes }, 'snake'), undefined)
      const twice = Buffer.from(`{"model":"m","messages":[${many},{"role":"user","role":${long}}]}`)
      const read = await readJson(twice, isSkimmed)
      const fault = nameFault(
        { value: read.value as Record<string, unknown>, names: read.names, bytes: twice },
        'snake',
      )
      assert.equal(fault?.param, 'messages[600].role')
    }
  })

  it('are truncated in an error to the longest possible path', () => {
    const fault = faultIn(`{"Model${'_'.repeat(5_000)}":1}`)
    assert.ok((fault?.param?.length ?? 0) <= 201)
  })

  for (const { name, isGemini, body } of clientRequests()) {
    law(`are fine in the request ${name}`, { transcript: name }, () => {
      assert.equal(faultIn(JSON.stringify(body), isGemini ? 'either' : 'snake'), undefined)
    })
  }
})
