import { readFileSync } from 'node:fs'
import { getRawAsset, isSea } from 'node:sea'
import { Worker, type WorkerOptions } from 'node:worker_threads'
import { PACKAGE } from './program-file.ts'

/**
 * The start of a thread in a single executable. The virtual file system with the program exists on the main thread only, so
 * this code loads the program's modules from the assets of the executable (docs/adr/0028-one-bundle-for-every-package.md).
 */
function executableStart(file: URL): string {
  return `
const { getAsset } = require('node:sea')
const { registerHooks } = require('node:module')
const root = ${JSON.stringify(PACKAGE.href)}
registerHooks({
  resolve(specifier, context, next) {
    const url = specifier.startsWith('.') ? new URL(specifier, context.parentURL).href : specifier
    return url.startsWith(root) ? { url, format: 'module', shortCircuit: true } : next(specifier, context)
  },
  load(url, context, next) {
    if (!url.startsWith(root)) return next(url, context)
    return { format: 'module', source: getAsset('program/' + url.slice(root.length), 'utf8'), shortCircuit: true }
  },
})
import(${JSON.stringify(file.href)})`
}

/** Reads a file of the program in a thread, also in a single executable. */
export const readInThread = (file: URL): Uint8Array =>
  isSea()
    ? new Uint8Array(getRawAsset(`program/${file.href.slice(PACKAGE.href.length)}`))
    : readFileSync(file)

/** Starts a file of the program as a thread. */
export const startProgramThread = (file: URL, options: WorkerOptions): Worker =>
  isSea() ? new Worker(executableStart(file), { ...options, eval: true }) : new Worker(file, options)
