/** What a file of the program, named by its path from `src`, is called once it is built: there are no folders then. */
export const builtName = (path: string) => path.replace(/^\W+/, '').replaceAll('/', '-')

/** A file of the program to be run as a thread or a process, by its path from `src`, from source or built. */
export const programFile = (path: string) =>
  import.meta.url.endsWith('.ts')
    ? new URL(`../${path}.ts`, import.meta.url)
    : new URL(`./${builtName(path)}.js`, import.meta.url)

/** Where the package begins. A built file stands as deep in it as this one: in the folder of its build. */
export const PACKAGE = new URL('../../', import.meta.url)
