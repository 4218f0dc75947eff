import type { contract } from '../../../src/manage/contract/index.ts'
import type { Answer } from '../../../src/manage/contract/route.ts'

/** Every call the console may make: the management API's own contract, and nothing beside it. */
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
export type Video = ItemOf<'listVideos'>
export type VideoDetail = AnswerOf<'getVideo'>
export type CostLines = NonNullable<AnswerOf<'getLog'>['costs'][number]>
export type Entry = ItemOf<'listEntries'>
