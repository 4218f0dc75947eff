/** Password hashes of other gateways, which are replaced at the next sign-in. */

/** bcrypt with a cost up to 12, which takes half a second: a hostile database could name any. */
const BCRYPT = /^\$2[aby]\$(0[4-9]|1[0-2])\$[./A-Za-z0-9]{53}$/

export const isImportedHash = (stored: string): boolean => BCRYPT.test(stored)
