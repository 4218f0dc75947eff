import { appendFileSync, existsSync, globSync } from 'node:fs'
import { delimiter, join, relative } from 'node:path'

/** Names a file that collects what was skipped without other programs, over all processes of a run. */
export const SKIPS_VARIABLE = 'SLUICE_TEST_SKIPS'

/** Programs of the system administrator may not be in the path of an ordinary user. */
const PLACES = [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin', '/usr/local/sbin']

const inPath = (command: string) =>
  PLACES.map(place => join(place, command)).find(path => path !== command && existsSync(path))
const firstOf = (paths: readonly (string | undefined)[]) =>
  paths.find(path => path !== undefined && existsSync(path))

type Program = {
  /** As it calls itself. */
  readonly title: string
  /** The package of Debian that contains it. */
  readonly package: string
  /** Its path; undefined if it is not installed. */
  find(): string | undefined
}

/** The other programs that tests of `npm run test:system` use. */
const PROGRAMS = {
  // The headless shell is Chromium without its own windows, and takes two thirds of the CPU time.
  chromium: {
    title: 'Chromium',
    package: 'chromium-headless-shell',
    find: () =>
      firstOf([
        process.env.CHROMIUM_PATH,
        '/usr/bin/chromium-headless-shell',
        '/usr/bin/chromium',
        '/usr/bin/chromium-browser',
        '/usr/bin/google-chrome',
        '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
      ]),
  },
  nginx: { title: 'nginx', package: 'nginx-light', find: () => inPath('nginx') },
  haproxy: { title: 'HAProxy', package: 'haproxy', find: () => inPath('haproxy') },
  caddy: { title: 'Caddy', package: 'caddy', find: () => inPath('caddy') },
  prometheus: { title: 'Prometheus', package: 'prometheus', find: () => inPath('prometheus') },
  promtool: { title: 'promtool', package: 'prometheus', find: () => inPath('promtool') },
  tinyproxy: { title: 'tinyproxy', package: 'tinyproxy-bin', find: () => inPath('tinyproxy') },
  microsocks: { title: 'microsocks', package: 'microsocks', find: () => inPath('microsocks') },
  'systemd-analyze': { title: 'systemd-analyze', package: 'systemd', find: () => inPath('systemd-analyze') },
  patroni: { title: 'Patroni', package: 'patroni', find: () => inPath('patroni') },
  etcd: { title: 'etcd', package: 'etcd-server', find: () => inPath('etcd') },
  // The newest PostgreSQL of the system. Debian does not put it into the path.
  postgres: {
    title: 'PostgreSQL of the system',
    package: 'postgresql',
    find: () => globSync('/usr/lib/postgresql/*/bin/postgres').sort().at(-1),
  },
  mariadbd: { title: 'MariaDB', package: 'mariadb-server-core', find: () => inPath('mariadbd') },
  'mariadb-install-db': {
    title: 'mariadb-install-db',
    package: 'mariadb-server-core',
    find: () => inPath('mariadb-install-db'),
  },
  // The script above calls it.
  my_print_defaults: {
    title: 'my_print_defaults of MariaDB',
    package: 'mariadb-client-core',
    find: () => inPath('my_print_defaults'),
  },
} as const satisfies Readonly<Record<string, Program>>

export type ProgramName = keyof typeof PROGRAMS

/** The path of a program; undefined if it is not installed. */
export const programPath = (name: ProgramName): string | undefined => PROGRAMS[name].find()

/** The path of a program that the test would have been skipped without. */
export function installedProgram(name: ProgramName): string {
  const path = programPath(name)
  if (path === undefined) throw new Error(`${PROGRAMS[name].title} is not installed`)
  return path
}

const firstMissing = (names: readonly ProgramName[]) => names.find(name => programPath(name) === undefined)

/** Why tests that need these programs are skipped; false if all are installed. */
export function missingProgram(...names: readonly ProgramName[]): string | false {
  const name = firstMissing(names)
  if (name === undefined) return false
  return `${PROGRAMS[name].title} is not installed (Debian: apt-get install ${PROGRAMS[name].package})`
}

type Skip = { readonly program: string; readonly package: string; readonly file: string }

/**
 * The reason to skip tests of a file (`import.meta.filename`) that need these programs; false if all are installed. What is skipped
 * is recorded for the end of the run, or printed if the file runs by itself.
 */
export function skipWithout(file: string, ...names: readonly ProgramName[]): string | false {
  const name = firstMissing(names)
  if (name === undefined) return false
  const skip: Skip = {
    program: PROGRAMS[name].title,
    package: PROGRAMS[name].package,
    file: relative('.', file),
  }
  const line = `${JSON.stringify(skip)}\n`
  const path = process.env[SKIPS_VARIABLE]
  if (path === undefined) console.log(describeSkips(line))
  else appendFileSync(path, line)
  return missingProgram(name)
}

/** One line for each missing program: which files were skipped, all or in part, and how to install it. */
export function describeSkips(lines: string): string {
  const skips = lines
    .split('\n')
    .filter(line => line !== '')
    .map(line => JSON.parse(line) as Skip)
  const byProgram = Map.groupBy(skips, ({ program }) => program)
  return [...byProgram]
    .toSorted(([one], [other]) => one.localeCompare(other))
    .map(([program, each]) => {
      const files = [...new Set(each.map(({ file }) => file))].toSorted().join(', ')
      return `Skipped without ${program}: ${files} (apt-get install ${each[0]?.package})`
    })
    .join('\n')
}
