/** The path prefix behind a proxy, told by the page that the gateway sent. */
export const basePath =
  document.querySelector<HTMLMetaElement>('meta[name="sluice-base-path"]')?.content.replace(/^%.*%$/, '') ??
  ''

/** The address applications are given, as this browser reached it. */
export const publicAddress = `${location.origin}${basePath}`
