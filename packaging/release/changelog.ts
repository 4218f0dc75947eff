const UNRELEASED = '## Unreleased'
const NOTE = 'Lines in bold need an action after an upgrade.'
const VERSION = /^(\d+)\.(\d+)\.(\d+)$/

/** Whether a version follows another (https://semver.org, without pre-releases). */
export function isNewer(next: string, current: string): boolean {
  const [nextParts, currentParts] = [VERSION.exec(next), VERSION.exec(current)]
  if (!nextParts || !currentParts) throw new Error(`a version is three numbers: ${next}, ${current}`)
  for (const part of [1, 2, 3]) {
    const difference = Number(nextParts[part]) - Number(currentParts[part])
    if (difference !== 0) return difference > 0
  }
  return false
}

/** The text below a heading of a version, without the heading. */
export function sectionOf(changelog: string, heading: string): string {
  const start = changelog.indexOf(`\n${heading}\n`)
  if (start === -1) throw new Error(`CHANGELOG.md has no heading "${heading}"`)
  const text = changelog.slice(start + heading.length + 2)
  const end = text.search(/^## /m)
  return (end === -1 ? text : text.slice(0, end)).trim()
}

/** Gives the unreleased changes a version and a date, and begins a new section for the next ones. */
export function released(changelog: string, version: string, date: string): string {
  if (sectionOf(changelog, UNRELEASED).replace(NOTE, '').trim() === '')
    throw new Error('CHANGELOG.md has no unreleased changes')
  return changelog.replace(`${UNRELEASED}\n`, `${UNRELEASED}\n\n## ${version} (${date})\n`)
}

/** The changes of a version that was released, as notes of the release. */
export function notesOf(changelog: string, version: string): string {
  const heading = changelog.split('\n').find(line => line.startsWith(`## ${version} (`))
  return heading === undefined ? sectionOf(changelog, UNRELEASED) : sectionOf(changelog, heading)
}
