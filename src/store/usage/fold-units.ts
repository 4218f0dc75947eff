/** The dimensions of each kind of sum; all others are summed over. */
export const GRAINS = {
  all: [],
  model: ['model'],
  channel: ['channel_id'],
  channel_model: ['channel_id', 'model'],
  user: ['user_id'],
  user_model: ['user_id', 'model'],
  user_channel: ['user_id', 'channel_id'],
  token: ['user_id', 'token_id'],
} as const
export type Grain = keyof typeof GRAINS
export type Dimension = (typeof GRAINS)[Grain][number]
/**
 * One column for grain and step: PostgreSQL assumes that two columns are independent, and would estimate a hundred times as
 * many rows.
 */
export const kindOf = ({ grain, step }: { readonly grain: Grain; readonly step: number }) =>
  `${grain}@${step}`

export type FoldUnit = {
  readonly unit: number
  readonly sums: readonly { readonly grain: Grain; readonly step: number }[]
}

const QUARTER_HOUR_S = 900
const HOUR_S = 3600
const DAY_S = 24 * HOUR_S
const WEEK_S = 7 * DAY_S

/**
 * A unit is folded as a whole, after its end. Hours are for charts in any time zone, days and weeks for sums over long
 * periods. Sums of users and tokens have no finer unit: they would be too many, and their quarter hours are indexed by user.
 */
export const UNITS: readonly FoldUnit[] = [
  {
    unit: WEEK_S,
    sums: (['user', 'user_model', 'user_channel', 'token'] as const).map(grain => ({ grain, step: WEEK_S })),
  },
  {
    unit: DAY_S,
    sums: (
      ['all', 'model', 'channel', 'channel_model', 'user', 'user_model', 'user_channel', 'token'] as const
    ).map(grain => ({ grain, step: DAY_S })),
  },
  {
    unit: HOUR_S,
    sums: [
      ...(['all', 'model', 'channel', 'channel_model'] as const).map(grain => ({ grain, step: HOUR_S })),
      ...(['all', 'model', 'channel'] as const).map(grain => ({ grain, step: QUARTER_HOUR_S })),
    ],
  },
]
