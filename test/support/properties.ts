import fc from 'fast-check'

/**
 * Property tests draw the same cases in every run, so that a run fails only for what was changed. `SLUICE_SEED` draws
 * others; a campaign draws new ones each time, and fast-check prints the seed of a failure.
 */
const seed = process.env.SLUICE_SEED ?? (process.env.SLUICE_CAMPAIGN ? undefined : 20_261_116)
if (seed !== undefined) fc.configureGlobal({ seed: Number(seed) })

export { fc }
