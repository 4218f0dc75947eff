/**
 * Compiles patterns of model names, of which one must match the whole name: `*` stands for any characters, `[2-5]` for one
 * of a range. Letter case does not count, because hosts that rename models change it.
 */
export function compilePatterns(patterns: readonly string[]): (model: string) => boolean {
  const sources = patterns.map(pattern => pattern.replaceAll(/[\\^$.|?+(){}]/g, '\\$&').replaceAll('*', '.*'))
  const expression = new RegExp(`^(?:${sources.join('|')})$`, 'is')
  return model => expression.test(model)
}

type Row = { readonly matches: readonly string[]; readonly from?: string }

/** Numbers of a version: 4.6 is `[4, 6]`. */
export type Version = readonly [major: number, minor: number]

/**
 * Makes the lookup of a table: the first row that matches wins. A row with `from` matches names with this version or a later
 * one, so that rows stand newest first.
 */
export function createLookup<R extends Row>(
  rows: readonly R[],
  versionIn: (model: string) => Version | undefined = () => undefined,
): (model: string) => R | undefined {
  const compiled = rows.map(row => ({
    row,
    isMatch: compilePatterns(row.matches),
    from: row.from === undefined ? undefined : readVersion(row.from),
  }))
  return model => {
    const version = versionIn(model)
    return compiled.find(
      ({ isMatch, from }) => (from === undefined || isSince(version, from)) && isMatch(model),
    )?.row
  }
}

function readVersion(text: string): Version {
  const [major = 0, minor = 0] = text.split('.').map(Number)
  return [major, minor]
}

function isSince(version: Version | undefined, [major, minor]: Version): boolean {
  if (version === undefined) return false
  return version[0] > major || (version[0] === major && version[1] >= minor)
}
