import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { type Simulator, startSimulator } from '../../../simulator/server.ts'
import { retryingFetch } from '../../support/client.ts'
import { freePort } from '../../support/free-port.ts'
import { newDirectory, type Server, startServer, until } from '../../support/process.ts'
import { skipWithout } from '../../support/programs.ts'
import { createResources } from '../../support/relay.ts'

const REQUESTS = 7
const skip = skipWithout(import.meta.filename, 'prometheus', 'promtool')

const promtool = (args: readonly string[], input?: string) =>
  spawnSync('promtool', args, { encoding: 'utf8', ...(input === undefined ? {} : { input }) })

describe('Prometheus (docs/operating/monitoring.md: Prometheus and Grafana)', { skip }, () => {
  let simulator: Simulator | undefined
  let server: Server
  let metricsUrl: string
  let prometheusUrl: string
  let prometheus: ReturnType<typeof spawn> | undefined

  before(async () => {
    simulator = await startSimulator()
    const [metricsPort, port] = [await freePort(), await freePort()]
    metricsUrl = `http://127.0.0.1:${metricsPort}/metrics`
    server = await startServer({
      dataDir: newDirectory(),
      env: { SLUICE_METRICS_PORT: String(metricsPort) },
    })
    const folder = newDirectory()
    mkdirSync(join(folder, 'data'))
    const config = readFileSync('monitoring/prometheus.yml', 'utf8')
      .replace('15s', '500ms\n  evaluation_interval: 500ms')
      .replace('alerts.yml', resolve('monitoring/alerts.yml'))
      .replace('127.0.0.1:9464', `127.0.0.1:${metricsPort}`)
    writeFileSync(join(folder, 'prometheus.yml'), config)
    prometheusUrl = `http://127.0.0.1:${port}`
    prometheus = spawn(
      'prometheus',
      [
        `--config.file=${join(folder, 'prometheus.yml')}`,
        `--storage.tsdb.path=${join(folder, 'data')}`,
        `--web.listen-address=127.0.0.1:${port}`,
        '--log.level=error',
      ],
      { stdio: 'ignore' },
    )
  })
  after(async () => {
    prometheus?.kill()
    await server?.stop()
    await simulator?.close()
  })

  // biome-ignore lint/suspicious/noExplicitAny: answers of Prometheus
  const ask = async (path: string): Promise<any> =>
    (await retryingFetch(`${prometheusUrl}/api/v1/${path}`)).json()
  const query = async (expression: string): Promise<{ metric: Record<string, string>; value: string[] }[]> =>
    (await ask(`query?query=${encodeURIComponent(expression)}`)).data.result

  it('scrapes the gateway, and its counters are the requests that were sent', async () => {
    const resources = createResources(server.api, simulator?.url ?? '')
    const { model } = await resources.serve('sim-words-4', {}, { per_call: 0.01 })
    const { key } = await resources.newToken({ unlimited_quota: true })
    for (let i = 0; i < REQUESTS; i++) {
      const { status } = await server.api(
        'POST',
        '/v1/chat/completions',
        { model, messages: [{ role: 'user', content: 'Hello' }] },
        { token: key },
      )
      assert.equal(status, 200)
    }
    const [series] = await until('the scrape', async () => {
      const result = await query('sluice_requests_total{operation="chat",status="200"}').catch(() => [])
      return Number(result[0]?.value[1]) === REQUESTS ? result : undefined
    })
    assert.equal(series?.metric.job, 'sluice')
    assert.equal(Number((await query('sluice_spend_usd_total'))[0]?.value[1]).toFixed(2), '0.07')
  })

  it('accepts the alert rules, and can evaluate each of them', async () => {
    const rules = await until('the first evaluation', async () => {
      const { data } = await ask('rules').catch(() => ({ data: { groups: [] } }))
      const all: { name: string; health: string; lastError?: string }[] = data.groups.flatMap(
        (group: { rules: unknown[] }) => group.rules,
      )
      return all.length > 0 && all.every(({ health }) => health !== 'unknown') ? all : undefined
    })
    assert.deepEqual(
      rules.filter(({ health }) => health !== 'ok'),
      [],
    )
  })

  it('finds no fault in the metrics, the rules and their tests', async () => {
    const text = await (await retryingFetch(metricsUrl)).text()
    for (const [args, input] of [
      [['check', 'metrics'], text],
      [['check', 'rules', 'monitoring/alerts.yml'], undefined],
      [['check', 'config', 'monitoring/prometheus.yml'], undefined],
      [['test', 'rules', 'monitoring/alerts.test.yml'], undefined],
    ] as const) {
      const { status, stdout, stderr } = promtool(args, input)
      assert.equal(status, 0, `${args.join(' ')}\n${stdout}${stderr}`)
    }
  })
})

describe('the dashboard and the alert rules', () => {
  it('use only metrics that the reference lists', () => {
    const documented = new Set(
      [...readFileSync(join('docs', 'reference', 'metrics.md'), 'utf8').matchAll(/`(sluice_\w+)/g)].map(
        ([, name]) => name,
      ),
    )
    for (const file of globSync('monitoring/*.{json,yml}')) {
      const names = [...readFileSync(file, 'utf8').matchAll(/\bsluice_[a-z_]+/g)].map(([name]) =>
        name.replace(/_(bucket|sum|count)$/, ''),
      )
      const unknown = names.filter(name => !documented.has(name))
      assert.deepEqual([file, unknown], [file, []])
    }
  })

  it('have panels that can be limited to one instance', () => {
    const dashboard = JSON.parse(readFileSync('monitoring/grafana-dashboard.json', 'utf8'))
    const ids = dashboard.panels.map(({ id }: { id: number }) => id)
    assert.equal(new Set(ids).size, ids.length)
    const expressions: string[] = dashboard.panels.flatMap(
      ({ targets = [] }: { targets?: { expr: string }[] }) => targets.map(({ expr }) => expr),
    )
    assert.ok(expressions.length >= 20)
    assert.ok(expressions.every(expression => expression.includes('$instance')))
  })
})
