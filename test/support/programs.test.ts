import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { describeSkips } from './programs.ts'

describe('the report of skipped tests', () => {
  it('has one line for each missing program, with its files and the line that installs it', () => {
    const skips = [
      { program: 'HAProxy', package: 'haproxy', file: 'test/system/http1/proxies.test.ts' },
      { program: 'Chromium', package: 'chromium-headless-shell', file: 'test/system/console/forms.test.ts' },
      { program: 'HAProxy', package: 'haproxy', file: 'test/system/app/rolling-restart.test.ts' },
      { program: 'HAProxy', package: 'haproxy', file: 'test/system/http1/proxies.test.ts' },
    ]
    assert.equal(
      describeSkips(skips.map(skip => `${JSON.stringify(skip)}\n`).join('')),
      [
        'Skipped without Chromium: test/system/console/forms.test.ts (apt-get install chromium-headless-shell)',
        'Skipped without HAProxy: test/system/app/rolling-restart.test.ts, test/system/http1/proxies.test.ts (apt-get install haproxy)',
      ].join('\n'),
    )
  })

  it('is empty if nothing was skipped', () => {
    assert.equal(describeSkips(''), '')
  })
})
