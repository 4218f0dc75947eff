import { providerOf } from '../../../providers/index.ts'

/** The types of channels in new-api and one-api, by our numbers. Ours below 1000 are those of new-api. */

const CUSTOM = 8

type TypeHere = {
  readonly type: number
  /** The default URL there, where ours differs or does not exist. */
  readonly baseUrl?: string
}

/** Resellers with OpenAI's format that have no type here. */
const RESELLERS = {
  6: { type: CUSTOM, baseUrl: 'https://api.openaimax.com' },
  9: { type: CUSTOM, baseUrl: 'https://api.caipacity.com' },
  10: { type: CUSTOM, baseUrl: 'https://api.aiproxy.io' },
  12: { type: CUSTOM, baseUrl: 'https://api.api2gpt.com' },
  13: { type: CUSTOM, baseUrl: 'https://api.aigc2d.com' },
  22: { type: CUSTOM, baseUrl: 'https://fastgpt.run/api/openapi' },
} as const satisfies Record<number, TypeHere>

/** Numbers of one-api that mean another vendor in new-api; null: there is no counterpart. */
const ONE_API: Readonly<Record<number, TypeHere | null>> = {
  2: { type: CUSTOM, baseUrl: 'https://oa.api2d.net' },
  4: { type: CUSTOM, baseUrl: 'https://api.closeai-proxy.xyz' },
  5: { type: CUSTOM, baseUrl: 'https://api.openai-sb.com' },
  26: { type: CUSTOM, baseUrl: 'https://api.baichuan-ai.com' },
  27: { type: 35 },
  28: { type: 42 },
  29: { type: 1001 },
  30: { type: 4 },
  32: { type: CUSTOM, baseUrl: 'https://api.stepfun.com' },
  34: null,
  35: { type: 34 },
  36: { type: 43 },
  37: { type: 39 },
  38: null,
  39: { type: 1002 },
  40: { type: 45 },
  41: { type: 1007 },
  42: { type: 41 },
  43: null,
  44: { type: 40 },
  45: { type: 48 },
  46: { type: 56 },
  47: { type: 46 },
  48: { type: 18 },
  49: { type: 17 },
  50: { type: CUSTOM },
  51: {
    type: CUSTOM,
    baseUrl: 'https://generativelanguage.googleapis.com/v1beta/openai/chat/completions',
  },
}

/** Our type for a number there; undefined if no provider here corresponds to it. */
export function typeHere(number: number, variant: 'new-api' | 'one-api'): TypeHere | undefined {
  if (variant === 'one-api' && Object.hasOwn(ONE_API, number)) return ONE_API[number] ?? undefined
  if (Object.hasOwn(RESELLERS, number)) return RESELLERS[number as keyof typeof RESELLERS]
  return providerOf(number) ? { type: number } : undefined
}

/** Names that new-api accepts instead of a URL. */
export const NAMED_URLS: Readonly<Record<string, string>> = {
  'glm-coding-plan': 'https://open.bigmodel.cn/api/coding/paas/v4',
  'glm-coding-plan-international': 'https://api.z.ai/api/coding/paas/v4',
  'kimi-coding-plan': 'https://api.kimi.com/coding/v1',
  'doubao-coding-plan': 'https://ark.cn-beijing.volces.com/api/coding/v3',
}

/** Providers whose keys there are signed for another protocol than the one that is used here. */
export const OTHER_KEY_FORMAT: ReadonlySet<number> = new Set([18, 23])
