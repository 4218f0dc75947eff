import type { NodeSummary } from '../domain/node.ts'

const WIDTHS = { id: 14, name: 22, state: 10, version: 9, address: 22 } as const

/** A table for people. */
export function nodeLines(nodes: readonly NodeSummary[], now: number): string[] {
  const row = (cells: Readonly<{ [column in keyof typeof WIDTHS]: string }>, rest: string) =>
    `${(Object.keys(WIDTHS) as (keyof typeof WIDTHS)[]).map(column => cells[column].padEnd(WIDTHS[column])).join(' ')} ${rest}`
  const header = { id: 'ID', name: 'NAME', state: 'STATE', version: 'VERSION', address: 'ADDRESS' }
  return [
    row(header, 'HEARTBEAT  BEHIND  LEASED  IN FLIGHT'),
    ...nodes.map(node =>
      row(
        node,
        [
          `${Math.max(0, now - node.heartbeat_time)} s ago`.padEnd(10),
          String(Math.max(0, node.position - node.applied)).padEnd(7),
          `$${node.leased}`.padEnd(7),
          String(node.in_flight),
        ].join(' '),
      ),
    ),
  ]
}
