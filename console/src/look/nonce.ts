/** The page's policy lets in only styles with its nonce; libraries that add one look for it under this name. */
const nonce = document.querySelector<HTMLMetaElement>('meta[property="csp-nonce"]')?.nonce
Object.assign(globalThis, { __webpack_nonce__: nonce })
