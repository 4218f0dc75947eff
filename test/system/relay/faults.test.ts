import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { countTokens } from '../../../simulator/tokens.ts'
import { suiteRelay } from '../../support/relay.ts'
import { brokenWith, createQuestion, refusedWith, STREAM, textOf } from '../../support/relay-faults.ts'

describe('a provider that sends 100 MB', () => {
  const relay = suiteRelay('sqlite')
  const askOnce = (...question: Parameters<ReturnType<typeof createQuestion>>) =>
    createQuestion(relay)(...question)

  it('as an error, or as a line of a response, fails like any other', async () => {
    refusedWith((await askOnce('sim-bigerror')).reply, 502, 'upstream_error')
    refusedWith((await askOnce('sim-bigline')).reply, 502, 'upstream_error')
    const { reply, token } = await askOnce('sim-bigline', STREAM)
    brokenWith(reply, 'upstream_error')
    assert.equal(countTokens(textOf(reply)), 3)
    assert.ok((await relay.rowOf(token.id)).cost > 0)
  })

  it('compressed, although the gateway did not accept that, fails like any other', async () => {
    for (const more of [{}, STREAM])
      refusedWith((await askOnce('sim-gzip-bomb', more)).reply, 502, 'upstream_error')
  })
})
