import { startSimulator } from '../../simulator/server.ts'
import { newGround, startServer } from './process.ts'

/** The program with its console built, and a provider to connect. */
export async function startConsole(env: Readonly<Record<string, string>> = {}) {
  const simulator = await startSimulator()
  const ground = await newGround('sqlite', env)
  const server = await startServer(ground)
  return {
    ...server,
    ground,
    simulator,
    async close(): Promise<void> {
      await server.stop()
      await simulator.close()
    },
  }
}

export type ConsoleServer = Awaited<ReturnType<typeof startConsole>>

/** Every page, and how it is opened directly. */
export const PAGES = [
  '/',
  '/start',
  '/usage',
  '/videos',
  '/playground',
  '/playground?tab=compare',
  '/playground?tab=images',
  '/playground?tab=speech',
  '/playground?tab=transcription',
  '/playground?tab=moderation',
  '/playground?tab=rerank',
  '/playground?tab=video',
  '/playground?tab=tests',
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
  '/alerts',
  '/alerts?tab=targets',
  '/alerts?tab=deliveries',
  '/audit',
  '/history',
  '/ledger',
  '/nodes',
  '/canaries',
  '/settings',
  '/me',
] as const
