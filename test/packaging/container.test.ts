import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { parse, parseAllDocuments } from 'yaml'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8')

const [, drainDefault = ''] = /SLUICE_DRAIN_S` \| `(\d+)`/.exec(read('docs/operating/settings.md')) ?? []
const { version } = JSON.parse(read('package.json'))

type Instruction = { readonly name: string; readonly text: string }

/** The instructions of a Dockerfile by stage, with continued lines joined. */
function stagesOf(text: string): Instruction[][] {
  const lines = text
    .replace(/\\\n/g, ' ')
    .split('\n')
    .filter(line => line.trim() !== '' && !line.startsWith('#'))
  const stages: Instruction[][] = []
  for (const line of lines) {
    const [, name = '', rest = ''] = /^([A-Z]+)\s+(.*)$/.exec(line) ?? assert.fail(`no instruction: ${line}`)
    if (name === 'FROM') stages.push([])
    stages.at(-1)?.push({ name, text: rest })
  }
  return stages
}

describe('the Dockerfile', () => {
  const stages = stagesOf(read('Dockerfile'))
  const last = stages.at(-1) ?? []
  const texts = (name: string) => last.filter(each => each.name === name).map(({ text }) => text)

  it('builds in one stage and ships another, on the Node.js that Sluice needs', () => {
    assert.equal(stages.length, 2)
    for (const [from] of stages) assert.match(from?.text ?? '', /^node:26-slim\b/)
    assert.doesNotMatch(JSON.stringify(last), /npm (ci|install)/)
  })

  it('runs as a user without rights, with a volume for the data and a health check', () => {
    assert.deepEqual(texts('USER'), ['10001:10001'])
    assert.deepEqual(texts('VOLUME'), ['/var/lib/sluice'])
    assert.deepEqual(texts('STOPSIGNAL'), ['SIGTERM'])
    assert.match(texts('ENV').join(' '), /SLUICE_DATA=\/var\/lib\/sluice/)
    assert.match(texts('HEALTHCHECK').join(), /CMD \["node", "\/opt\/sluice\/healthcheck\.cjs"\]$/)
  })

  it('starts the gateway without a shell, which would not pass SIGTERM on', () => {
    const [entry = ''] = texts('ENTRYPOINT')
    assert.deepEqual(JSON.parse(entry), ['node', '/opt/sluice/packaging/npm/sluice.cjs'])
    assert.deepEqual(texts('CMD'), ['["start"]'])
  })

  it('copies files that exist and are not ignored', () => {
    const ignored = read('.dockerignore')
      .split('\n')
      .filter(line => line !== '')
    const copied = stages
      .flat()
      .filter(({ name, text }) => name === 'COPY' && !text.startsWith('--from'))
      .flatMap(({ text }) => text.split(/\s+/).slice(0, -1))
    assert.ok(copied.length > 3)
    for (const path of copied) {
      assert.ok(existsSync(join(ROOT, path)), path)
      assert.ok(!ignored.some(pattern => path === pattern || path.startsWith(`${pattern}/`)), path)
    }
    // What `npm pack` needs is in the context of the build.
    for (const path of ['src', 'console', 'packaging', 'bundle.ts', 'README.md', 'LICENSE', 'CHANGELOG.md'])
      assert.ok(!ignored.includes(path), path)
    for (const path of ['node_modules', 'data', '.git', 'dist']) assert.ok(ignored.includes(path), path)
  })
})

describe('compose.yaml', () => {
  const { services } = parse(read('compose.yaml'))

  it('runs the gateway on PostgreSQL with a read-only root file system and no rights', () => {
    const { gateway } = services
    assert.equal(gateway.read_only, true)
    assert.deepEqual(gateway.cap_drop, ['ALL'])
    assert.equal(gateway.image, `sluice:${version}`)
    assert.deepEqual(gateway.volumes, ['gateway:/var/lib/sluice'])
    assert.equal(gateway.depends_on.database.condition, 'service_healthy')
    assert.ok(services.database.healthcheck)
  })

  it('contains no secret, and is not reachable from other machines', () => {
    const { environment, ports } = services.gateway
    assert.match(environment.DATABASE_URL, /:\$\{POSTGRES_PASSWORD:\?/)
    assert.match(environment.SLUICE_SECRET, /^\$\{SLUICE_SECRET:\?/)
    for (const port of ports) assert.match(port, /^127\.0\.0\.1:/)
    assert.equal(services.database.ports, undefined)
  })

  it('waits longer for the end than the gateway waits for its requests', () => {
    assert.ok(Number.parseInt(services.gateway.stop_grace_period, 10) > Number(drainDefault) + 5)
  })
})

type Manifest = {
  readonly kind: string
  readonly metadata: { name: string }
  readonly [key: string]: unknown
}

type Probe = { readonly httpGet: { readonly path: string } }
type Variable = {
  readonly name: string
  readonly valueFrom?: { readonly secretKeyRef: { readonly name: string; readonly key: string } }
}
type Container = {
  readonly image: string
  readonly env: readonly Variable[]
  readonly volumeMounts: readonly { readonly name: string }[]
  readonly securityContext: {
    readonly readOnlyRootFilesystem: boolean
    readonly capabilities: { readonly drop: readonly string[] }
  }
  readonly readinessProbe: Probe
  readonly livenessProbe: Probe
  readonly startupProbe: Probe
}
/** The parts of a Deployment or StatefulSet that the tests read. */
type Workload = {
  readonly replicas: number
  readonly selector: { readonly matchLabels: unknown }
  readonly volumeClaimTemplates?: readonly Manifest[]
  readonly template: {
    readonly metadata: { readonly labels: unknown }
    readonly spec: {
      readonly containers: readonly [Container]
      readonly volumes: readonly { readonly name: string }[]
      readonly securityContext: { readonly runAsNonRoot: boolean }
      readonly automountServiceAccountToken: boolean
      readonly terminationGracePeriodSeconds: number
    }
  }
}

const manifests = (file: string) =>
  parseAllDocuments(read(`packaging/kubernetes/${file}`)).map(document => {
    assert.deepEqual(document.errors, [])
    return document.toJS() as Manifest
  })

describe('the Kubernetes manifests', () => {
  const labels = { 'app.kubernetes.io/name': 'sluice' }
  const [secret] = manifests('secret.example.yaml')
  const [service, budget] = manifests('service.yaml')

  for (const file of ['deployment.yaml', 'statefulset.yaml']) {
    const [manifest] = manifests(file)
    const spec = manifest?.spec as Workload
    const pod = spec.template.spec
    const [container] = pod.containers

    it(`probe, restrict and spread the pods of ${file}`, () => {
      assert.ok(spec.replicas >= 2)
      assert.deepEqual(spec.selector.matchLabels, labels)
      assert.deepEqual(spec.template.metadata.labels, labels)
      assert.equal(container.readinessProbe.httpGet.path, '/readyz')
      assert.equal(container.livenessProbe.httpGet.path, '/healthz')
      assert.equal(container.startupProbe.httpGet.path, '/healthz')
      assert.equal(container.securityContext.readOnlyRootFilesystem, true)
      assert.deepEqual(container.securityContext.capabilities.drop, ['ALL'])
      assert.equal(pod.securityContext.runAsNonRoot, true)
      assert.equal(pod.automountServiceAccountToken, false)
      assert.ok(pod.terminationGracePeriodSeconds > Number(drainDefault) + 5)
      assert.match(container.image, new RegExp(`/sluice:${version}$`))
    })

    it(`take secrets of ${file} from the secret, and mount only volumes that exist`, () => {
      const references = container.env.flatMap(({ valueFrom }) => valueFrom?.secretKeyRef ?? [])
      assert.ok(references.length >= 2)
      for (const { name, key } of references) {
        assert.equal(name, secret?.metadata.name)
        assert.ok(Object.hasOwn((secret as Manifest).stringData as object, key), key)
      }
      const claims = (spec.volumeClaimTemplates ?? []).map(({ metadata }) => metadata.name)
      const volumes = [...claims, ...pod.volumes.map(({ name }) => name)]
      for (const { name } of container.volumeMounts) assert.ok(volumes.includes(name), name)
    })
  }

  it('have a service and a disruption budget for the same pods', () => {
    assert.equal(budget?.kind, 'PodDisruptionBudget')
    assert.ok(service)
    const { selector: ofService } = service.spec as { selector: unknown }
    const { selector: ofBudget } = budget.spec as Pick<Workload, 'selector'>
    assert.deepEqual(ofService, labels)
    assert.deepEqual(ofBudget.matchLabels, labels)
  })
})
