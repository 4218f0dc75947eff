import type { Plugin } from 'vite'

const NAME = 'virtual:routes'
const RESOLVED = `\0${NAME}`

/**
 * Method and path of every route, read from the contract at build time. The client needs nothing else, so pages
 * without a form do not load the schemas and zod.
 */
export const routeTable = (): Plugin => ({
  name: 'route-table',
  resolveId: id => (id === NAME ? RESOLVED : undefined),
  async load(id) {
    if (id !== RESOLVED) return undefined
    const { contract } = await import(new URL('../src/manage/contract/index.ts', import.meta.url).href)
    const rows = Object.entries<{ method: string; path: string; reply?: unknown }>(contract).map(
      ([name, { method, path, reply }]) => [name, { method, path, isWhole: reply !== undefined }],
    )
    return `export const routes = ${JSON.stringify(Object.fromEntries(rows))}`
  },
})
