/** The part of a CycloneDX document that we read and change. */
export type Bom = {
  readonly metadata: { readonly component: object; readonly [key: string]: unknown }
  readonly components: readonly {
    readonly name: string
    readonly version: string
    readonly 'bom-ref': string
  }[]
  readonly dependencies: readonly { readonly ref: string; readonly dependsOn?: readonly string[] }[]
  readonly [key: string]: unknown
}

/** `name@version` of all packages whose licenses a build contains: `name 1.2.3 (MIT)` or `## name - 1.2.3 (MIT)`. */
export const packagesIn = (licenses: string): ReadonlySet<string> =>
  new Set(
    [...licenses.matchAll(/^(?:## )?(\S+) (?:- )?(\d+\.\d+\.\d+\S*) \([^)]*\)+$/gm)].map(
      ([, name, version]) => `${name}@${version}`,
    ),
  )

/**
 * The list of components of a release. npm lists all packages of the checkout, with tools; a release contains those that
 * are in the builds, and Node.js in the executable.
 */
export function shippedComponents(bom: Bom, shipped: ReadonlySet<string>, nodeVersion: string): Bom {
  const components = bom.components.filter(({ name, version }) => shipped.has(`${name}@${version}`))
  const missing = [...shipped].filter(
    each => !components.some(({ name, version }) => `${name}@${version}` === each),
  )
  if (missing.length > 0) throw new Error(`npm does not list ${missing.join(', ')}`)
  const refs = new Set(components.map(component => component['bom-ref']))
  const node = {
    'bom-ref': `node@${nodeVersion}`,
    type: 'platform',
    name: 'node',
    version: nodeVersion,
    purl: `pkg:generic/node@${nodeVersion}`,
    licenses: [{ license: { id: 'MIT' } }],
  }
  return {
    ...bom,
    metadata: {
      ...bom.metadata,
      component: { ...bom.metadata.component, type: 'application', name: 'sluice' },
    },
    components: [...components, node],
    dependencies: bom.dependencies
      .filter(({ ref }) => refs.has(ref))
      .map(({ ref, dependsOn = [] }) => ({ ref, dependsOn: dependsOn.filter(each => refs.has(each)) })),
  }
}
