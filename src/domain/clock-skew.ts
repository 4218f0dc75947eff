/** How far the clocks of two machines may differ. A stored time further ahead was written before a clock was set back. */
export const MAX_SKEW_S = 600
