import { z } from 'zod'
import type { Contract } from './route.ts'

const settingItem = z
  .object({
    key: z.string(),
    value: z.union([z.string(), z.number(), z.boolean()]),
    default: z.union([z.string(), z.number(), z.boolean()]),
    source: z.enum(['default', 'set']),
    unit: z.string(),
    help: z.string(),
  })
  .meta({ id: 'Setting' })

const optionItem = z.object({ key: z.string(), value: z.string() })

export const settingContract = {
  listSettings: {
    method: 'GET',
    path: '/api/setting/',
    access: 'root',
    summary: 'Every setting, with its default and where its value comes from',
    data: z.array(settingItem),
  },
  updateSettings: {
    method: 'PUT',
    path: '/api/setting/',
    access: 'root',
    summary: 'Change settings, all or none; null or an empty string restores the default',
    body: z.record(z.string().max(100), z.unknown()),
    data: z.array(settingItem),
  },
  listOptions: {
    method: 'GET',
    path: '/api/option/',
    access: 'root',
    summary: 'Every setting in the form that existing clients read',
    data: z.array(optionItem),
  },
  updateOption: {
    method: 'PUT',
    path: '/api/option/',
    access: 'root',
    summary: 'Change one setting, in the form that existing clients send',
    body: z.object({ key: z.string().max(100), value: z.unknown() }),
    data: z.array(settingItem),
  },
} as const satisfies Contract
