import { describeImportOf } from '../../support/scaled-import.ts'

const isCampaign = process.env.SLUICE_CAMPAIGN !== undefined

describeImportOf(
  isCampaign ? { users: 1_000, tokens: 10_000, channels: 200 } : { users: 300, tokens: 2_000, channels: 60 },
)
