/** The name of a built file, from its path below `src`. A build has no folders. */
export const builtName = (path: string) => path.replace(/^\W+/, '').replaceAll('/', '-')

/** A file of the program to run as a thread or process, by its path below `src`; from source or built. */
export const programFile = (path: string) =>
  import.meta.url.endsWith('.ts')
    ? new URL(`../${path}.ts`, import.meta.url)
    : new URL(`./${builtName(path)}.js`, import.meta.url)

/** The root of the package. A built file is as deep in it as this one: in the folder of its build. */
export const PACKAGE = new URL('../../', import.meta.url)
