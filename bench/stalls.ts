const RESOLUTION_MS = 1
const NANOS_PER_MS = 1e6
const MICROS_PER_MS = 1e3

/**
 * Two views of the longest stall: the delay of the event loop by the clock, and the processor time that its thread took
 * between two ticks. The second leaves out moments in which the machine gave the core to another program.
 */
export const WATCH_STALLS = `globalThis.benchDelay ??= (() => {
  const delay = process.getBuiltinModule('node:perf_hooks').monitorEventLoopDelay({ resolution: ${RESOLUTION_MS} })
  delay.enable()
  const spent = () => { const { user, system } = process.threadCpuUsage(); return user + system }
  let last = spent()
  let most = 0
  setInterval(() => {
    const now = spent()
    most = Math.max(most, now - last)
    last = now
  }, ${RESOLUTION_MS}).unref()
  return {
    reset() { delay.reset(); most = 0; last = spent() },
    clockMs: () => delay.max / ${NANOS_PER_MS} - ${RESOLUTION_MS},
    cpuMs: () => most / ${MICROS_PER_MS},
  }
})(); benchDelay.reset(); 0`

export const STALL_BY_CLOCK_MS = 'benchDelay.clockMs()'
export const STALL_BY_CPU_MS = 'benchDelay.cpuMs()'
