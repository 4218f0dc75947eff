import { Worker } from 'node:worker_threads'

/** Takes the CPU time that other programs of a busy machine would take. Threads end with this process, however it ends. */
export function startBusyLoops(count: number): { readonly stop: () => Promise<void> } {
  const workers = Array.from({ length: count }, () => new Worker('for (;;) {}', { eval: true }))
  return {
    async stop() {
      await Promise.all(workers.map(worker => worker.terminate()))
    },
  }
}
