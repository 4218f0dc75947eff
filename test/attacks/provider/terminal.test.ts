import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, it } from 'node:test'
import { type CliDeps, runCli } from '../../../src/cli/cli.ts'
import { suiteRelay } from '../../support/relay.ts'

/** Sets the title of a terminal, clears it, returns to the start of the line, and changes the color in eight bits. */
const COMMANDS = '\u001b]0;owned\u0007\u001b[2J\r\u009b31m'

describe('a provider whose errors contain commands of a terminal', () => {
  const relay = suiteRelay('sqlite')

  it('does not reach the terminal of the operator who explains the request', async () => {
    const error = { message: `bad${COMMANDS}`, code: `code${COMMANDS}`, param: COMMANDS, type: COMMANDS }
    const provider = createServer((_request, response) => {
      response.writeHead(400, { 'content-type': 'application/json' })
      response.end(JSON.stringify({ error }))
    }).listen(0, '127.0.0.1')
    await once(provider, 'listening')
    const base_url = `http://127.0.0.1:${(provider.address() as AddressInfo).port}`
    const { model } = await relay.serve('any', { base_url })
    const { id, key } = await relay.newToken()
    const reply = await relay.chat(key, { model, messages: [{ role: 'user', content: 'Hi' }] })
    await relay.rowsOf(id, 1)
    const lines: string[] = []
    const code = await runCli(['explain', reply.headers.get('x-request-id') ?? ''], {
      operate: (_name: string, input: { text: string }) => relay.gateway.operations.explain(input),
      print: (line: string) => lines.push(line),
      printError: (line: string) => lines.push(line),
    } as unknown as CliDeps)
    provider.closeAllConnections()
    provider.close()
    assert.equal(code, 0)
    const printed = lines.join('\n')
    assert.match(printed, /bad/)
    assert.doesNotMatch(printed, /[^\P{Cc}\n]/u)
  })
})
