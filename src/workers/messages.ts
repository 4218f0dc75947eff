import type { AccountId } from '../domain/account.ts'
import type { ChannelCondition, HealthEvent } from '../domain/channel-condition.ts'
import type { MetricSnapshot } from '../metrics/registry.ts'

/** The supervisor sets this variable for its workers. It is not a setting: alone, it has no effect. */
export const WORKER_VARIABLE = 'SLUICE_WORKER'

/** The role of a worker. The supervisor sends it in reply to `hello`. */
export type Assignment = {
  readonly slot: number
  /** A random id of this start of the gateway, which all its workers have in common. */
  readonly machine: string
  /** The node whose journal it writes. */
  readonly nodeId: string
  /** Nodes that no worker runs any more; the first worker settles their journals. */
  readonly orphans: readonly string[]
}

/** A worker that ended unexpectedly; the time is in Unix seconds. */
export type WorkerExit = { readonly slot: number; readonly how: string; readonly time: number }

/** The procedures of a worker. A broadcast is answered when every worker has completed it. */
export type ToWorker = {
  /** Invalidates the caches of these targets, which changed in the store. */
  invalidate(targets: readonly string[]): Promise<void>
  /** Applies all settled requests to the store. */
  apply(input: null): Promise<void>
  /** The same, and returns the free lease of an account. */
  flushAndReturn(account: AccountId): Promise<void>
  /** These accounts are low: returns their free leases, and for a while leases only what is needed. */
  returnIdle(accounts: readonly AccountId[]): Promise<void>
  /** Takes over what another node has found out about channels and keys. */
  health(events: readonly HealthEvent[]): Promise<void>
  /** Reads the master secret in the data directory again: a rotation has changed it. */
  reloadSecret(input: null): Promise<void>
  /** Reports all running cooldowns to the other nodes: one of them has just started. */
  reportHealth(input: null): Promise<void>
  /** The metrics of the worker. */
  metrics(input: null): Promise<readonly MetricSnapshot[]>
  /** The channels of the worker that are not ready. */
  conditions(input: null): Promise<readonly ChannelCondition[]>
  ping(input: null): Promise<void>
  /** The gateway is about to stop: the worker is not ready any more, and still serves requests. */
  drain(input: null): Promise<void>
  stop(input: null): Promise<void>
}
export type BroadcastName =
  | 'invalidate'
  | 'apply'
  | 'flushAndReturn'
  | 'returnIdle'
  | 'reloadSecret'
  | 'health'
  | 'reportHealth'
/** The procedures whose results are collected from all workers. */
export type CollectedName = 'metrics' | 'conditions'
/** The procedures that a worker serves once it has started. */
export type ServedName = BroadcastName | CollectedName
export type Broadcast = {
  readonly [Name in BroadcastName]: { name: Name; input: Parameters<ToWorker[Name]>[0] }
}[BroadcastName]

/** The procedures of the supervisor, which counts limits for all workers together. */
export type ToSupervisor = {
  hello(input: null): Promise<Assignment>
  ready(input: null): Promise<void>
  broadcast(broadcast: Broadcast): Promise<void>
  /** Receives the metrics of this worker. Returns those of the others, and the counters of workers that have ended. */
  otherMetrics(own: readonly MetricSnapshot[]): Promise<readonly (readonly MetricSnapshot[])[]>
  /** The conditions of every other worker that responds. */
  otherConditions(input: null): Promise<readonly (readonly ChannelCondition[])[]>
  enter(name: string): Promise<void>
  leave(name: string): void
  admit(input: { readonly subjects: readonly unknown[]; readonly countedInput: number }): Promise<unknown>
  /** Acknowledged, because the last byte of a response may wait until the slot is free. */
  leaveTicket(id: number): Promise<void>
  endTicket(input: { readonly id: number; readonly tokens: number }): Promise<void>
  /** The number of seconds that a sign-in has to wait. */
  attempt(input: { readonly account: string; readonly address: string }): Promise<number>
  succeed(input: { readonly account: string; readonly address: string }): void
  /** This address sent forwarding headers and is not a trusted proxy. */
  reportProxy(peer: string): void
  /** The first such address that any worker reported. */
  firstProxy(input: null): Promise<{ readonly peer: string; readonly time: number } | null>
  /** The workers that ended unexpectedly, the oldest first; only the last 100 are kept. */
  workerExits(input: null): Promise<readonly WorkerExit[]>
}
