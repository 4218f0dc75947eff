/**
 * Compiles patterns of model names, one of which must match the entire name: `*` matches any characters, `[2-5]` one of a
 * range. Case is ignored, because hosts that rename models change it.
 */
export function compilePatterns(patterns: readonly string[]): (model: string) => boolean {
  const sources = patterns.map(pattern => pattern.replaceAll(/[\\^$.|?+(){}]/g, '\\$&').replaceAll('*', '.*'))
  const expression = new RegExp(`^(?:${sources.join('|')})$`, 'is')
  return model => expression.test(model)
}

type Row = { readonly matches: readonly string[]; readonly from?: string }

/** The numbers of a version: 4.6 is `[4, 6]`. */
export type Version = readonly [major: number, minor: number]

/**
 * Creates the lookup function of a table: the first matching row wins. A row with `from` matches this version or later
 * ones, so rows are sorted newest first.
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
