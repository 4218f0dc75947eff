import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createServer as createHttpsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { describe, it } from 'node:test'
import { configSchema } from '../../src/manage/contract/config-file.ts'
import { commandFolder } from '../support/command-folder.ts'
import { startConnectProxy } from '../support/outbound-proxies.ts'
import { PRIVATE_CA, PRIVATE_CLIENT, PRIVATE_SERVER } from '../support/private-ca.ts'
import { newGround, run, settingsOf, startGatewayOn } from '../support/process.ts'

const KEY = 'sk-provider-canary-1234567'
const CHANGES = 2

describe('sluice apply (docs/operating/configuration-as-code.md: Apply a file)', () => {
  it('reads a directory, and secrets from files beside it', async () => {
    const { sluice, write } = commandFolder(settingsOf(await newGround('sqlite')))
    write('conf/20-aliases.yml', 'version: 1\naliases: [{name: a, target: b, channels: [c]}]\n')
    write('conf/10-channels.yaml', 'version: 1\nchannels: [{name: c, type: 1, key: "file:../key.txt"}]\n')
    write('conf/30.json', '{"version": 1, "settings": [{"key": "attempts", "value": 2}]}')
    write('conf/notes.txt', 'not read')
    write('key.txt', `${KEY}\n`)
    const applied = await sluice('apply', '-f', 'conf')
    assert.equal(applied.code, 0, applied.stderr)
    assert.match(applied.stdout, /Applied: 3 created/)
    write('conf/40.yaml', 'version: 1\nsettings: {attempts: 3}\n')
    const twice = await sluice('apply', '-f', 'conf')
    assert.deepEqual(
      [twice.code, twice.stderr],
      [1, 'sluice: conf/40.yaml:2: settings.attempts has the same name as settings.0\n'],
    )
    write('conf/40.yaml', 'version: 1\n')
    write('conf/20-aliases.yml', 'version: 1\n')
    const unprunedRun = await sluice('apply', '-f', 'conf')
    assert.match(
      unprunedRun.stdout,
      /^ {2}! alias "a" is no longer in the file\. --prune deletes it\.\nNo changes/,
    )
    const pruned = await sluice('apply', '-f', 'conf', '--prune')
    assert.match(pruned.stdout, /^ {2}- alias "a"\n\nApplied: 0 created, 0 changed, 1 deleted\.\n$/)
  })

  it('reads the proxy and the client key of a channel from references, and connects with them', async test => {
    const provider = createHttpsServer(
      { ...PRIVATE_SERVER, ca: PRIVATE_CA, requestCert: true, rejectUnauthorized: true },
      (_request, response) =>
        response
          .setHeader('content-type', 'application/json')
          .end(JSON.stringify({ object: 'list', data: [{ id: 'listed', object: 'model' }] })),
    )
    await new Promise<void>(resolve => provider.listen(0, '127.0.0.1', () => resolve()))
    const { port } = provider.address() as AddressInfo
    const proxy = await startConnectProxy({
      credentials: { username: 'ann', password: 'canary-password' },
      names: { 'provider.test': '127.0.0.1' },
    })
    const ground = await newGround('sqlite')
    const PROXY_URL = `http://ann:canary-password@127.0.0.1:${proxy.port}`
    const { sluice, write } = commandFolder({ ...settingsOf(ground), PROVIDER_KEY: KEY, PROXY_URL })
    test.after(async () => {
      await proxy.close()
      provider.closeAllConnections()
      provider.close()
    })
    write(
      'sluice.yaml',
      `version: 1
channels:
  - name: mutual
    type: 1
    key: env:PROVIDER_KEY
    base_url: https://provider.test:${port}
    models: [listed]
    setting:
      proxy: env:PROXY_URL
      ca: file:ca.pem
      client_cert: file:client.pem
      client_key: file:client.key
`,
    )
    write('ca.pem', PRIVATE_CA)
    write('client.pem', PRIVATE_CLIENT.cert)
    const missing = await sluice('apply', '-f', 'sluice.yaml')
    assert.equal(missing.code, 1)
    assert.match(
      missing.stderr,
      /^sluice: sluice\.yaml:12: channels\.0\.setting\.client_key: \S+client\.key cannot be read \(ENOENT\)\n$/,
    )
    write('client.key', PRIVATE_CLIENT.key)
    const applied = await sluice('apply', '-f', 'sluice.yaml')
    assert.deepEqual([applied.code, applied.stderr], [0, ''])
    assert.doesNotMatch(applied.stdout, /canary|PRIVATE KEY/)

    const server = await startGatewayOn(ground)
    const [channel] = (await server.api('GET', '/api/channel/')).body.data.items
    const listed = await server.api('GET', `/api/channel/fetch_models/${channel.id}`)
    assert.deepEqual(listed.body.data, ['listed'], listed.text)
    assert.deepEqual(proxy.targets, [`provider.test:${port}`])
    assert.doesNotMatch(JSON.stringify(channel), /canary|PRIVATE KEY/)
    await server.close()

    assert.match((await sluice('apply', '-f', 'sluice.yaml')).stdout, /^No changes/)
    const exported = await sluice('export')
    assert.doesNotMatch(exported.stdout, /canary|PRIVATE KEY/)
    write('client.key', 'not a key')
    const wrong = await sluice('apply', '-f', 'sluice.yaml')
    assert.equal(wrong.code, 1)
    assert.match(wrong.stderr, /^sluice: sluice\.yaml:12: channels\.0\.setting\.client_key /)
  })

  it('names the file and line of a mistake, and changes nothing', async () => {
    const { sluice, write } = commandFolder(settingsOf(await newGround('sqlite')))
    for (const [text, message] of [
      ['version: 1\nchannels:\n  - name: a\n    type: 1\n   key: x\n', /^sluice: bad\.yaml:\d+: /],
      ['version: 1\nchannels:\n  - name: a\n    name: b\n', /^sluice: bad\.yaml:4: Map keys must be unique/],
      ['channels: []\n', /^sluice: bad\.yaml:1: version must be 1/],
      ['version: 1\nchannel: []\n', /^sluice: bad\.yaml:2: "channel" is not a section/],
      ['[]', /^sluice: bad\.yaml: must be a map/],
      [
        'version: 1\nchannels:\n  - name: a\n    type: 1\n    key: env:NO_SUCH_VARIABLE\n',
        /^sluice: bad\.yaml:5: channels\.0\.key: the environment variable NO_SUCH_VARIABLE is not set/,
      ],
      [
        'version: 1\nchannels:\n  - name: a\n    type: 1\n    key: file:none\n',
        /^sluice: bad\.yaml:5: channels\.0\.key: \S+none cannot be read \(ENOENT\)/,
      ],
      [
        'version: 1\naliases:\n  - {name: a, target: b}\n  - name: c\n    target: d\n    status: 7\n',
        /^sluice: bad\.yaml:6: aliases\.1\.status must be 1 \(enabled\) or 2 \(disabled\)\n$/,
      ],
      [
        'version: 1\nsettings:\n  attempts: 1000\n',
        /^sluice: bad\.yaml:3: settings\.attempts must be a whole/,
      ],
      // JSON has no such numbers: they would become null, which means no limit.
      [
        'version: 1\nchannels:\n  - name: a\n    type: 1\n    limits: {rpm: .inf}\n',
        /^sluice: bad\.yaml:5: \.inf is not a finite number\n$/,
      ],
      [
        'version: 1\nusers:\n  - {username: a, quota: 1e999}\n',
        /^sluice: bad\.yaml:3: 1e999 is not a finite/,
      ],
      // The text of a secret that another program encrypted would become the key.
      [
        'version: 1\nchannels:\n  - name: a\n    type: 1\n    key: !vault |\n      $VAULT;1.1\n',
        /^sluice: bad\.yaml:5: Unresolved tag: !vault\n$/,
      ],
      // A file that would expand to gigabytes.
      [
        `version: 1\naliases:\n${[...'abcdefghi']
          .map(
            (name, index, all) =>
              `  - &${name} [${
                index === 0
                  ? 'lol'
                  : Array(9)
                      .fill(`*${all[index - 1]}`)
                      .join(', ')
              }]`,
          )
          .join('\n')}\n`,
        /^sluice: bad\.yaml: /,
      ],
    ] as const) {
      write('bad.yaml', text)
      const { code, stderr, stdout } = await sluice('apply', '-f', 'bad.yaml')
      assert.deepEqual([code, stdout], [1, ''], stderr)
      assert.match(stderr, message)
    }
    assert.equal((await sluice('apply')).code, 64)
    assert.match((await sluice('apply', '-f', 'none.yaml')).stderr, /none\.yaml cannot be read/)
  })

  it('warns of secrets that are written in the file', async () => {
    const { sluice, write } = commandFolder(settingsOf(await newGround('sqlite')))
    write('plain.yaml', `version: 1\nchannels: [{name: a, type: 1, key: ${KEY}}]\n`)
    const { code, stderr } = await sluice('apply', '-f', 'plain.yaml')
    assert.equal(code, 0)
    assert.match(stderr, /plain\.yaml:2: channels\.0\.key is written in the file\. Use env:NAME or file:PATH/)
    assert.doesNotMatch(stderr, /canary/)
  })

  it('tries the file of secrets before it changes anything', async () => {
    const { sluice, write } = commandFolder(settingsOf(await newGround('sqlite')))
    write('sluice.yaml', 'version: 1\ntokens: [{name: app}]\n')
    write('other.json', '{}')
    for (const file of ['other.json', 'no/such/directory/file'])
      assert.equal((await sluice('apply', '-f', 'sluice.yaml', '--secrets-out', file)).code, 1)
    const planned = await sluice('apply', '-f', 'sluice.yaml', '--dry-run')
    assert.match(planned.stdout, /Plan: 1 to create/)
    const applied = await sluice('apply', '-f', 'sluice.yaml')
    assert.match(applied.stderr, /values of 1 new tokens/)
  })

  it('is listed, shown, compared and rolled back by sluice config', async () => {
    const ground = await newGround('sqlite')
    const { sluice, write } = commandFolder(settingsOf(ground))
    write('one.yaml', 'version: 1\naliases: [{name: a, target: b}]\n')
    write('two.yaml', 'version: 1\naliases: [{name: a, target: c}]\n')
    assert.equal((await sluice('apply', '-f', 'one.yaml')).code, 0)
    assert.equal((await sluice('apply', '-f', 'two.yaml', '--reason', 'new target')).code, 0)
    const log = await sluice('config', 'log')
    assert.match(
      log.stdout,
      /^ {4}3 {2}\S+Z {2}system \(command:apply\) {2}~ alias "a" {2}# new target\n {4}2 /,
    )
    assert.equal(JSON.parse((await sluice('config', 'log', '--json', '--limit', '1')).stdout).length, 1)
    const one = await sluice('config', 'show', '3')
    assert.match(
      one.stdout,
      /^revision 3, .*\nreason: new target\n\n {2}~ alias "a"\n {6}target: "b" -> "c"\n$/,
    )
    assert.equal((await sluice('config', 'diff', '2')).stdout, '  ~ alias "a"\n      target: "b" -> "c"\n')
    assert.equal((await sluice('config', 'diff', '3')).stdout, 'No differences.\n')
    const planned = await sluice('config', 'rollback', '2', '--dry-run')
    assert.deepEqual([planned.code, planned.stdout], [CHANGES, '  ~ alias "a"\n      target: "c" -> "b"\n'])
    const restored = await sluice('config', 'rollback', '2')
    assert.deepEqual([restored.code, restored.stderr], [0, ''])
    assert.match(restored.stdout, /\nRestored the configuration of 2 as revision 4\.\n$/)
    const server = await startGatewayOn(ground)
    const { items } = (await server.api('GET', '/api/alias/')).body.data
    await server.close()
    assert.equal(items[0].target, 'b')
    assert.equal((await sluice('config', 'rollback', '2', '--dry-run')).code, 0)
    const drift = await sluice('apply', '-f', 'two.yaml', '--dry-run')
    assert.match(drift.stdout, /target: "b" -> "c" {2}# changed outside of the file, which had set "c"/)
    for (const [words, code] of [
      [['log', '--limit', '0'], 64],
      [['show'], 64],
      [['show', '99'], 1],
      [['diff', 'x'], 64],
      [['rollback', '99'], 1],
    ] as const)
      assert.equal((await sluice('config', ...words)).code, code, words.join(' '))
  })

  it('has a published JSON schema that is generated from the contract', async () => {
    const published = JSON.parse(readFileSync('docs/reference/sluice.schema.json', 'utf8'))
    assert.deepEqual(published, JSON.parse(JSON.stringify(configSchema())), 'run npm run docs:schema')
    const printed = await run(['config', 'schema'])
    assert.deepEqual(JSON.parse(printed.stdout), published)
  })
})
