import assert from 'node:assert/strict'
import { createServer, request, type Server } from 'node:http'
import { afterEach, describe, it } from 'node:test'
import { callControl, serveControl, socketPath } from '../../src/cli/control.ts'
import { newDirectory, until } from '../support/process.ts'

/** A command whose end the test decides. */
function slowCommand() {
  const started = Promise.withResolvers<void>()
  const outcome = Promise.withResolvers<{ result: string }>()
  const run = () => {
    started.resolve()
    return outcome.promise
  }
  const commands = { operations: { verify: run } as never, run }
  return { commands, started: started.promise, end: () => outcome.resolve({ result: 'complete' }) }
}

describe('a command to a running gateway', () => {
  let server: Server | undefined
  afterEach(() => {
    server?.closeAllConnections()
    server?.close()
  })

  it('fails with a message when the gateway sends nothing for the timeout', async () => {
    const dir = newDirectory()
    server = createServer(() => {})
    await new Promise<void>(resolve => server?.listen(socketPath(dir), resolve))
    await assert.rejects(callControl(dir, 'verify', {}, 200), {
      name: 'CommandError',
      message: /^the running gateway has not answered for 0\.2 s\. It may hang: see its log, or restart it$/,
    })
  })

  it('gets a space every 30 s while it runs, so that it may take longer than the timeout', async test => {
    test.mock.timers.enable({ apis: ['setInterval'] })
    const dir = newDirectory()
    const { commands, started, end } = slowCommand()
    server = await serveControl(dir, async () => commands)
    let text = ''
    const call = request({ socketPath: socketPath(dir), path: '/verify', method: 'POST' }, response =>
      response.setEncoding('utf8').on('data', (chunk: string) => {
        text += chunk
      }),
    ).end('{}')
    await started
    for (const spaces of [' ', '  ', '   ']) {
      test.mock.timers.tick(30_000)
      await until('a space', () => (text === spaces ? true : undefined))
    }
    end()
    await until('the outcome', () => (text.endsWith('}') ? true : undefined))
    assert.deepEqual(JSON.parse(text), { result: 'complete' })
    call.destroy()
  })

  it('ignores the spaces', async test => {
    test.mock.timers.enable({ apis: ['setInterval'] })
    const dir = newDirectory()
    const { commands, started, end } = slowCommand()
    server = await serveControl(dir, async () => commands)
    const call = callControl(dir, 'verify', {})
    await started
    test.mock.timers.tick(90_000)
    end()
    assert.deepEqual(await call, { result: 'complete' })
  })
})
