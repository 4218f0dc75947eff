import assert from 'node:assert/strict'
import { createServer, type Server } from 'node:http'
import { afterEach, describe, it } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { callControl, serveControl, socketPath } from '../../src/cli/control.ts'
import { newDirectory } from '../support/process.ts'

describe('a command to a running gateway', () => {
  let server: Server | undefined
  afterEach(() => {
    server?.closeAllConnections()
    server?.close()
  })

  it('fails with a message when the gateway sends nothing for the timeout', { timeout: 10_000 }, async () => {
    const dir = newDirectory()
    server = createServer(() => {})
    await new Promise<void>(resolve => server?.listen(socketPath(dir), resolve))
    await assert.rejects(callControl(dir, 'verify', {}, 200), {
      name: 'CommandError',
      message: /^the running gateway has not answered for 0\.2 s\. It may hang: see its log, or restart it$/,
    })
  })

  it('may take longer than the timeout while the gateway is alive', { timeout: 10_000 }, async () => {
    const dir = newDirectory()
    const run = async () => {
      await setTimeout(1_000)
      return { result: 'complete' }
    }
    server = await serveControl(dir, async () => ({ operations: { verify: run } as never, run }), 50)
    assert.deepEqual(await callControl(dir, 'verify', {}, 400), { result: 'complete' })
  })
})
