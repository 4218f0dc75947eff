/** The path prefix behind a proxy, from a meta tag that the gateway fills in. */
export const basePath =
  document.querySelector<HTMLMetaElement>('meta[name="sluice-base-path"]')?.content.replace(/^%.*%$/, '') ??
  ''

/** The base address for applications, as this browser reached it. */
export const publicAddress = `${location.origin}${basePath}`
