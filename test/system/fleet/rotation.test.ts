import assert from 'node:assert/strict'
import { copyFileSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { runHere } from '../../support/command.ts'
import { createDatabase } from '../../support/postgres.ts'
import { newDirectory, type Server, settingsOf, startServer } from '../../support/process.ts'
import { createResources } from '../../support/relay.ts'

const OLD = 'the first master secret of a fleet in a test'
const NEW = 'the second master secret of a fleet in a test'
const secretSetting = (secret: string | undefined) => (secret === undefined ? {} : { SLUICE_SECRET: secret })

describe('a rotation of the master secret on several machines (docs/operating/fleet.md: The master secret)', () => {
  const servers: Server[] = []
  const databases: { readonly url: string; drop(): Promise<void> }[] = []
  after(async () => {
    await Promise.all(servers.map(server => server.isRunning() && server.stop()))
    for (const database of databases) await database.drop()
  })

  async function openFleet() {
    const database = await createDatabase()
    databases.push(database)
    const databaseUrl = database.url
    return {
      async start(dataDir: string, secret?: string): Promise<Server> {
        const server = await startServer({ dataDir, databaseUrl, env: secretSetting(secret) })
        servers.push(server)
        return server
      },
      rotate: (dataDir: string, secret?: string) =>
        runHere(['admin', 'rotate-secret'], {
          env: settingsOf({ dataDir, databaseUrl, env: secretSetting(secret) }),
        }),
    }
  }

  async function addSealed({ api }: Server) {
    const resources = createResources(api, 'http://127.0.0.1:9')
    const key = `provider-key-${Math.random()}`
    const id = await resources.addChannel({ key, models: ['sealed'] })
    return { id, key }
  }
  const revealedBy = async ({ api }: Server, id: number) =>
    (await api('POST', `/api/channel/${id}/key`)).body.data?.key
  const nodeIn = (dataDir: string) => readdirSync(join(dataDir, 'nodes'))[0] as string

  it('is refused while a node of another machine does not have the new secret', async () => {
    const fleet = await openFleet()
    const [first, second] = [newDirectory(), newDirectory()]
    await (await fleet.start(first, OLD)).stop()
    const a = await fleet.start(first, `${NEW},${OLD}`)
    const b = await fleet.start(second, OLD)
    const sealed = await addSealed(b)
    const refused = await fleet.rotate(first, `${NEW},${OLD}`)
    assert.equal(refused.code, 1, refused.stderr)
    assert.match(
      refused.stderr,
      new RegExp(`^sluice: [^\\n]*${nodeIn(second)}[^\\n]*SLUICE_SECRET=new,old[^\\n]*\\n$`),
    )
    assert.equal(await revealedBy(b, sealed.id), sealed.key)
    await b.stop()
    const again = await fleet.start(second, `${NEW},${OLD}`)
    const { code, stderr } = await fleet.rotate(first, `${NEW},${OLD}`)
    assert.equal(code, 0, stderr)
    for (const server of [a, again]) {
      assert.equal(await revealedBy(server, sealed.id), sealed.key)
      const later = await addSealed(server)
      for (const other of [a, again]) assert.equal(await revealedBy(other, later.id), later.key)
    }
  })

  it('is refused if each machine has the secret in a file', async () => {
    const fleet = await openFleet()
    const [first, second] = [newDirectory(), newDirectory()]
    await fleet.start(first)
    copyFileSync(join(first, 'secret'), join(second, 'secret'))
    const b = await fleet.start(second)
    const before = readFileSync(join(first, 'secret'), 'utf8')
    const sealed = await addSealed(b)
    const { code, stderr } = await fleet.rotate(first)
    assert.equal(code, 1, stderr)
    assert.match(stderr, new RegExp(`^sluice: [^\\n]*${nodeIn(second)}[^\\n]*SLUICE_SECRET[^\\n]*\\n$`))
    assert.equal(readFileSync(join(first, 'secret'), 'utf8'), before)
    assert.equal(await revealedBy(b, sealed.id), sealed.key)
    await b.stop()
    assert.equal((await fleet.rotate(first)).code, 0)
  })
})
