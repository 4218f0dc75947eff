import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { readConfig } from '../../src/app/config.ts'
import { createPasswords, OPERATOR } from '../../src/identity/passwords.ts'
import { TEST_PASSWORD_COST } from '../support/first-start.ts'

const PASSWORD = 'correct horse battery staple'

describe('the hash of a password', () => {
  it('has the cost that OWASP recommends, which no setting lowers', async () => {
    const { passwordCost } = readConfig({})
    const hash = await createPasswords(passwordCost).hash(PASSWORD, OPERATOR)
    assert.match(hash, /^\$argon2id\$v=19\$m=19456,t=2,p=1\$[\w-]{22}\$[\w-]{43}$/)
  })

  it('contains its cost, and is verified with it', async () => {
    const hash = await createPasswords(TEST_PASSWORD_COST).hash(PASSWORD, OPERATOR)
    assert.match(hash, /^\$argon2id\$v=19\$m=64,t=1,p=1\$/)
    const { verify } = createPasswords()
    assert.equal(await verify(PASSWORD, hash, OPERATOR), true)
    assert.equal(await verify(`${PASSWORD}!`, hash, OPERATOR), false)
    assert.equal(await verify(PASSWORD, hash.replace('m=64', 'm=72'), OPERATOR), false)
  })
})
