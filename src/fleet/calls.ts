import type { FleetClock, NodeRecord, Snapshot } from './fleet.ts'
import type { Observations } from './observations.ts'

/** A procedure of a node. It may be called twice with the same effect as once, because messages are repeated. */
export type FleetProcedures = Readonly<Record<string, (input: never) => Promise<void>>>

/** Messages between nodes of different machines. */
export type CallNotice =
  | {
      readonly call: string
      readonly name: string
      readonly input: unknown
      readonly from: string
      readonly machine: string
    }
  | { readonly response: string; readonly by: string; readonly to: string; readonly hasFailed: boolean }

type FleetCallsDeps = {
  readonly nodeId: string
  readonly machine: string
  readonly clock: FleetClock
  readonly observations: Observations
  /** Sends a call to the nodes of all other machines, and returns these nodes. */
  sendToOthers(notice: CallNotice): Promise<Snapshot>
  send(notice: CallNotice): Promise<void>
  onFailure(error: Error): void
}

type OpenCall = {
  /** The nodes that responded, perhaps before the list of called nodes arrived. */
  readonly responses: Map<string, { readonly hasFailed: boolean }>
  /** Undefined until the list of called nodes is known. */
  called: readonly string[] | undefined
  end(): void
}

/** A node without a heartbeat for this long is not waited for. */
const SILENT_MS = 5_000
/** Messages can be lost with a connection, so they are sent again. */
const REPEAT_EVERY_MS = 300

const isComplete = ({ called, responses }: OpenCall) => called?.every(node => responses.has(node)) ?? false

/** Calls of procedures on the nodes of all other machines, through the store (docs/adr/0023-nodes-heartbeats-and-fences.md). */
export function createFleetCalls(deps: FleetCallsDeps) {
  const { nodeId, machine, clock, observations } = deps
  const openCalls = new Map<string, OpenCall>()
  let procedures: FleetProcedures = {}
  let nextId = 1

  const isSilent = (node: NodeRecord) => observations.ageMs(node) > SILENT_MS

  /** Resolves to the nodes that have failed, are silent, or have not completed the call in time. */
  async function callOthers(name: string, input: unknown, withinMs: number): Promise<readonly NodeRecord[]> {
    const startMs = clock.monotonicMs()
    const id = `${nodeId}.${nextId++}`
    const waiting = new AbortController()
    const call: OpenCall = {
      responses: new Map(),
      called: undefined,
      end: () => waiting.abort(),
    }
    openCalls.set(id, call)
    const notice: CallNotice = { call: id, name, input, from: nodeId, machine }
    try {
      const snapshot = await deps.sendToOthers(notice)
      observations.observe(snapshot)
      const { nodes } = snapshot
      const called = nodes.filter(node => !isSilent(node)).map(node => node.nodeId)
      call.called = called
      while (!isComplete(call)) {
        const leftMs = startMs + withinMs - clock.monotonicMs()
        if (leftMs <= 0) break
        await clock.wait(Math.min(leftMs, REPEAT_EVERY_MS), waiting.signal)
        if (!isComplete(call)) await deps.send(notice)
      }
      return nodes.filter(node => call.responses.get(node.nodeId)?.hasFailed !== false)
    } finally {
      openCalls.delete(id)
    }
  }

  async function execute(notice: Extract<CallNotice, { call: string }>): Promise<void> {
    let hasFailed = false
    try {
      const procedure = procedures[notice.name] as ((input: unknown) => Promise<void>) | undefined
      // An older version does not know it: the caller gives up after its timeout.
      if (!procedure) return
      await procedure(notice.input)
    } catch (error) {
      hasFailed = true
      deps.onFailure(error as Error)
    }
    await deps.send({ response: notice.call, by: nodeId, to: notice.from, hasFailed })
  }

  function takeResponse({ response, by, hasFailed }: Extract<CallNotice, { response: string }>): void {
    const call = openCalls.get(response)
    if (!call) return
    call.responses.set(by, { hasFailed })
    if (isComplete(call)) call.end()
  }

  return {
    callOthers,
    serve(ofNode: FleetProcedures): void {
      procedures = ofNode
    },
    receive(notice: CallNotice): void {
      if ('call' in notice) {
        if (notice.machine !== machine) void execute(notice).catch(deps.onFailure)
      } else if (notice.to === nodeId) takeResponse(notice)
    },
  }
}
