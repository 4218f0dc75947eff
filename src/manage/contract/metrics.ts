import { z } from 'zod'
import type { Contract } from './route.ts'

export const metricsContract = {
  metrics: {
    method: 'GET',
    path: '/metrics',
    access: 'admin',
    summary: 'The metrics of the gateway in the text format of Prometheus',
    reply: z.any().describe('Text'),
  },
} as const satisfies Contract
