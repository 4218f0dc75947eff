import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** The folder of the package that a module belongs to; undefined for our own modules. */
function packageOf(module: string): string | undefined {
  const [path = ''] = module.replace(/^\0/, '').split('?')
  return /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path)?.[0]
}

function textOf(folder: string): string {
  const { name, version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
  const files = readdirSync(folder).filter(file => /^(licen[cs]e|notice)/i.test(file))
  const texts = files.map(file => readFileSync(join(folder, file), 'utf8').trim())
  return [`${name} ${version} (${license})`, ...texts].join('\n\n')
}

/** The licenses of all packages that a bundle contains: their terms demand that copies include them. */
export function licensesOf(modules: readonly string[]): string {
  const folders = new Set(modules.map(packageOf).filter(folder => folder !== undefined))
  const texts = [...folders].filter(folder => existsSync(join(folder, 'package.json'))).map(textOf)
  return `${texts.sort().join(`\n\n${'-'.repeat(80)}\n\n`)}\n`
}
