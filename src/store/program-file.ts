/** A file of the program to be run as a thread or process, whether it runs from source or was built. */
export const programFile = (from: string, path: string) =>
  new URL(`${path}${from.endsWith('.ts') ? '.ts' : '.js'}`, from)
