import { startSimulator } from '../../simulator/server.ts'
import { newDirectory, startServer, until } from './process.ts'

/** The program with its console made, and a provider to connect. */
export async function startConsole(env: Readonly<Record<string, string>> = {}) {
  const simulator = await startSimulator()
  const server = await startServer({ dataDir: newDirectory(), env })
  // Made on the first start of a checkout; until then a page says so and reloads itself.
  await until('the console to be built', async () => {
    const page = await fetch(`${server.url}/`, { headers: { accept: 'text/html' } })
    return (await page.text()).includes('id="root"') ? true : undefined
  })
  return {
    ...server,
    simulator,
    async close(): Promise<void> {
      await server.stop()
      await simulator.close()
    },
  }
}

export type ConsoleServer = Awaited<ReturnType<typeof startConsole>>

/** Every page there is, and how it is opened cold. */
export const PAGES = [
  '/',
  '/start',
  '/usage',
  '/playground',
  '/tokens',
  '/tokens/new',
  '/models',
  '/models?tab=aliases',
  '/models?tab=route&route=gpt-4o',
  '/channels',
  '/channels/new',
  '/prices',
  '/users',
  '/users/new',
  '/audit',
  '/ledger',
  '/settings',
  '/me',
] as const
