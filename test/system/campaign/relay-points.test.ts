import { ENGINES } from '../../support/gateway.ts'
import { describeKills, KILL_CASES, RECOVERY_POINTS } from '../../support/relay-points.ts'

const isCampaign = process.env.SLUICE_CAMPAIGN !== undefined

// Every point on one of the engines, and in a campaign on both. Whole responses and streams alternate in the list of points: the share
// of an engine has both.
for (const [engineIndex, engine] of ENGINES.entries()) {
  const shareOf = <T>(all: readonly T[]) =>
    all.filter((_, index) => isCampaign || (index + Math.floor(index / 2)) % ENGINES.length === engineIndex)
  describeKills({ engine, cases: shareOf(KILL_CASES), recovery: shareOf(RECOVERY_POINTS) })
}
