/**
 * The content security policy allows only styles with its nonce. Libraries that insert styles read the nonce
 * from this global.
 */
const nonce = document.querySelector<HTMLMetaElement>('meta[property="csp-nonce"]')?.nonce
Object.assign(globalThis, { __webpack_nonce__: nonce })
