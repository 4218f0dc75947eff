import type { AccountId } from '../domain/account.ts'

/** What a worker is, told when it starts. */
export type Assignment = {
  readonly slot: number
  /** The node whose journal it writes. */
  readonly nodeId: string
  /** Nodes that no worker has any more, for the first one to settle. */
  readonly orphans: readonly string[]
}

/** What all workers are asked; the answer to the asker means that each of them has done it. */
export type ToWorker = {
  /** Targets of audit records: something changed in the store. */
  news(targets: readonly string[]): Promise<void>
  /** Bring the store up to what you have settled. */
  apply(input: null): Promise<void>
  /** The same, and give back what is free of an account. */
  flushAndReturn(account: AccountId): Promise<void>
  /** These accounts are low: give back what is free of them, and for a while take only what you need. */
  returnIdle(accounts: readonly AccountId[]): Promise<void>
  ping(input: null): Promise<void>
  stop(input: null): Promise<void>
}
export type Shared = 'news' | 'apply' | 'flushAndReturn' | 'returnIdle'
export type Broadcast = {
  readonly [Name in Shared]: { name: Name; input: Parameters<ToWorker[Name]>[0] }
}[Shared]

/** What a worker asks its supervisor, who counts what is limited for all of them together. */
export type ToSupervisor = {
  hello(input: null): Promise<Assignment>
  ready(input: null): Promise<void>
  others(broadcast: Broadcast): Promise<void>
  enter(name: string): Promise<void>
  leave(name: string): void
  admit(input: { readonly subjects: readonly unknown[]; readonly countedInput: number }): Promise<unknown>
  /** Acknowledged, because the last byte of a response may wait for the place to be free. */
  leaveTicket(id: number): Promise<void>
  endTicket(input: { readonly id: number; readonly tokens: number }): Promise<void>
  /** How many seconds a sign-in has to wait. */
  attempt(input: { readonly account: string; readonly address: string }): Promise<number>
  succeed(input: { readonly account: string; readonly address: string }): void
  /** This peer sent forwarding headers and is not trusted. */
  reportProxy(peer: string): void
  /** The first such peer that any worker reported. */
  firstProxy(input: null): Promise<{ readonly peer: string; readonly time: number } | null>
}
