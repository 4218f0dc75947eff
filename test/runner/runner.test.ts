import assert from 'node:assert/strict'
import { globSync } from 'node:fs'
import { describe, it } from 'node:test'
import { reachOf } from './changes.ts'
import { type FileCost, readCosts } from './cost.ts'
import { filesOf, hasBrowser, hasFleet, hasOwnProcess } from './files.ts'
import { filesOfLane, prepareLanes } from './lanes.ts'

describe('the files of a suite', () => {
  it('are in one of the two suites, by their folder', () => {
    const [tests, system] = [filesOf('test'), filesOf('system')]
    assert.deepEqual([...tests, ...system].sort(), globSync('test/**/*.test.ts').sort())
    assert.ok(system.length > 30 && system.every(file => file.startsWith('test/system/')))
  })

  it('need what they import, also through other files', () => {
    assert.ok(hasBrowser('test/system/console/console.test.ts'))
    assert.ok(hasFleet('test/system/fleet/money.test.ts'))
    assert.ok(!hasBrowser('test/system/fleet/money.test.ts'))
    assert.ok(!hasFleet('test/domain/cost.test.ts') && !hasOwnProcess('test/domain/cost.test.ts'))
  })

  it('of npm test need neither a browser nor a fleet', () => {
    assert.deepEqual(
      filesOf('test').filter(file => hasBrowser(file) || hasFleet(file)),
      [],
    )
  })
})

describe('a change', () => {
  const all = filesOf('test')
  const reached = (...changes: readonly string[]) => reachOf(changes, all)

  it('reaches the files that import it, directly or through others', () => {
    const { files } = reached('src/domain/cost.ts')
    assert.ok(files.includes('test/domain/cost.test.ts'))
    assert.ok(files.includes('test/relay/relay.test.ts'))
    assert.ok(!files.includes('test/http1/header-lines.test.ts'))
  })

  it('reaches what starts it as a thread or a program', () => {
    assert.ok(reached('src/main.ts').files.includes('test/app/start.test.ts'))
  })

  it('always runs the ledger, the architecture and a sample of the laws', () => {
    const { files, samplesLaws } = reached('docs/concepts.md')
    assert.ok(samplesLaws)
    const rooms = new Set(files.map(file => file.split('/')[1]))
    assert.deepEqual([...rooms].sort(), ['architecture.test.ts', 'chat', 'docs', 'ledger'])
  })

  it('runs all laws when it reaches them', () => {
    assert.ok(!reached('src/chat/hub/message.ts', 'test/chat/laws.test.ts').samplesLaws)
  })

  it('reaches everything when it is no module', () => {
    assert.deepEqual(reached('package-lock.json'), { files: all, samplesLaws: false })
  })
})

describe('lanes', () => {
  it('take each file once, and report what did not end', () => {
    const lanes = prepareLanes(['a.test.ts', 'b.test.ts', 'c.test.ts', 'd.test.ts'])
    const [first, second] = [filesOfLane(lanes.folder), filesOfLane(lanes.folder)]
    assert.deepEqual([first.next().value, second.next().value], ['a.test.ts', 'b.test.ts'])
    assert.equal(first.next().value, 'c.test.ts')
    // The second lane crashes while it runs b, and the first one while it runs c.
    assert.deepEqual(lanes.end(), ['b.test.ts', 'c.test.ts', 'd.test.ts'])
  })
})

describe('the costs of files', () => {
  it('are those of the first run of each file, the most expensive first', () => {
    const costs: readonly FileCost[] = [
      { file: 'a', cpuS: 1, wallS: 2 },
      { file: 'b', cpuS: 3, wallS: 3 },
      { file: 'a', cpuS: 9, wallS: 9 },
    ]
    assert.deepEqual(readCosts(costs.map(cost => `${JSON.stringify(cost)}\n`).join('')), [costs[1], costs[0]])
  })
})
