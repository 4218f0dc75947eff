import type { ParseArgsOptionsConfig } from 'node:util'

/** Exit codes of sysexits.h, so that process managers can distinguish wrong usage from a failure. */
export const EXIT = { ok: 0, failed: 1, usage: 64, badData: 65, config: 78 } as const

export type OptionValues = Readonly<Record<string, string | boolean | readonly string[] | undefined>>

/** A command of the command line. `Deps` is what it needs of the program. */
export type CommandDefinition<Deps> = {
  readonly summary: string
  readonly usage: string
  readonly options: ParseArgsOptionsConfig
  readonly help: readonly string[]
  readonly listsSettings?: true
  readonly positionals: number
  run(deps: Deps, values: OptionValues, positionals: readonly string[]): Promise<number>
}

/** The value of an option that takes one. */
export const text = (value: OptionValues[string]) => (typeof value === 'string' ? value : undefined)

export const DATA = { data: { type: 'string' } } as const
export const DATA_HELP = '--data DIR      the data directory (default: SLUICE_DATA, else ./data)'
export const JSON_HELP = '--json          print the result as one line of JSON'

/** What a command has to print: as lines for people, or as JSON. */
export type CommandOutput = { readonly json: unknown; readonly lines: readonly string[] }

export function show(
  { print }: { print(line: string): void },
  values: OptionValues,
  { json, lines }: CommandOutput,
): void {
  for (const line of values.json === true ? [JSON.stringify(json)] : lines) print(line)
}
