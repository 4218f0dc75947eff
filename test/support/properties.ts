import fc from 'fast-check'

/**
 * Property tests use the same cases in every run, so that a run fails only because of a change. `SLUICE_SEED`
 * selects others; a campaign uses new ones each time, and fast-check prints the seed of a failure.
 */
const seed = process.env.SLUICE_SEED ?? (process.env.SLUICE_CAMPAIGN ? undefined : 20_261_116)
if (seed !== undefined) fc.configureGlobal({ seed: Number(seed) })

export { fc }
