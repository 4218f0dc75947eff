import type { metricsContract } from '../contract/metrics.ts'
import type { Handlers } from './call.ts'
import type { Deps } from './deps.ts'

/** The metrics of the gateway (docs/reference/metrics.md: Gateway). */
export const createMetricsHandlers = ({ metrics }: Deps): Handlers<typeof metricsContract> => ({
  metrics: async ({ reply }) => {
    reply.type(metrics.contentType)
    return metrics.expose()
  },
})
