import type { contract } from '../../../src/manage/contract/index.ts'
import type { Answer } from '../../../src/manage/contract/route.ts'

/** The console calls only routes of the management API's contract. */
export type ApiContract = typeof contract
export type RouteName = keyof ApiContract

export type AnswerOf<Name extends RouteName> = Answer<ApiContract[Name]>
export type ItemOf<Name extends RouteName> = AnswerOf<Name> extends { items: (infer Item)[] } ? Item : never

export type User = AnswerOf<'getSelf'>
export type Token = AnswerOf<'getToken'>
export type Channel = AnswerOf<'getChannel'>
export type ChannelType = AnswerOf<'listTypes'>[number]
export type ChannelTestView = AnswerOf<'testChannel'>
export type UsageItem = ItemOf<'listLogs'>
export type Alias = AnswerOf<'getAlias'>
export type AlertRuleItem = AnswerOf<'getAlertRule'>
export type AlertTargetItem = AnswerOf<'getAlertTarget'>
export type AlertDeliveryItem = ItemOf<'listAlertDeliveries'>
export type PriceItem = AnswerOf<'createPrice'>
export type Pricing = AnswerOf<'pricing'>['data'][number]
export type SettingItem = AnswerOf<'listSettings'>[number]
export type NodeItem = AnswerOf<'listNodes'>[number]
export type CanaryItem = ItemOf<'listCanaries'>
export type WholeCanary = AnswerOf<'getCanary'>
export type AuditItem = ItemOf<'listAudit'>
export type RevisionItem = ItemOf<'listConfigRevisions'>
export type ConfigChangeItem = AnswerOf<'rollbackConfig'>['changes'][number]
export type AccessToken = ItemOf<'listAccessTokens'>
export type Suspense = ItemOf<'listSuspense'>
export type Series = AnswerOf<'usageSeries'>
export type ChannelHealth = AnswerOf<'channelHealth'>[number]
export type ModelFacts = AnswerOf<'modelOverview'>[number]
export type Attention = AnswerOf<'attention'>[number]
export type Video = ItemOf<'listVideos'>
export type VideoDetail = AnswerOf<'getVideo'>
export type CostLines = NonNullable<AnswerOf<'getLog'>['costs'][number]>
export type EntryItem = ItemOf<'listEntries'>
