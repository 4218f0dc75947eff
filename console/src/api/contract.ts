import { aliasContract } from '../../../src/manage/contract/aliases.ts'
import { auditContract } from '../../../src/manage/contract/audit.ts'
import { channelContract } from '../../../src/manage/contract/channels.ts'
import { insightContract } from '../../../src/manage/contract/insight.ts'
import { ledgerContract } from '../../../src/manage/contract/ledger.ts'
import { logContract } from '../../../src/manage/contract/logs.ts'
import { priceContract } from '../../../src/manage/contract/prices.ts'
import { pricingContract } from '../../../src/manage/contract/pricing.ts'
import type { Answer } from '../../../src/manage/contract/route.ts'
import { settingContract } from '../../../src/manage/contract/settings.ts'
import { statusContract } from '../../../src/manage/contract/status.ts'
import { tokenContract } from '../../../src/manage/contract/tokens.ts'
import { selfContract, signInContract, userContract } from '../../../src/manage/contract/users.ts'

/** Every call the console may make: the management API's own contract, and nothing beside it. */
export const contract = {
  ...statusContract,
  ...signInContract,
  ...selfContract,
  ...userContract,
  ...tokenContract,
  ...channelContract,
  ...aliasContract,
  ...settingContract,
  ...auditContract,
  ...ledgerContract,
  ...priceContract,
  ...pricingContract,
  ...logContract,
  ...insightContract,
}

export type Contract = typeof contract
export type RouteName = keyof Contract

export type AnswerOf<Name extends RouteName> = Answer<Contract[Name]>
export type ItemOf<Name extends RouteName> = AnswerOf<Name> extends { items: (infer Item)[] } ? Item : never

export type User = AnswerOf<'getSelf'>
export type Token = AnswerOf<'getToken'>
export type Channel = AnswerOf<'getChannel'>
export type ChannelType = AnswerOf<'listTypes'>[number]
export type TestResult = AnswerOf<'testChannel'>
export type LogRow = ItemOf<'listLogs'>
export type Alias = AnswerOf<'getAlias'>
export type Price = AnswerOf<'createPrice'>
export type Pricing = AnswerOf<'pricing'>['data'][number]
export type Setting = AnswerOf<'listSettings'>[number]
export type AuditRecord = ItemOf<'listAudit'>
export type AccessToken = ItemOf<'listAccessTokens'>
export type Suspense = ItemOf<'listSuspense'>
export type Series = AnswerOf<'usageSeries'>
export type Health = AnswerOf<'channelHealth'>[number]
export type ModelFacts = AnswerOf<'modelOverview'>[number]
export type Attention = AnswerOf<'attention'>[number]
export type CostLines = NonNullable<AnswerOf<'getLog'>['costs'][number]>
export type Entry = ItemOf<'listEntries'>
