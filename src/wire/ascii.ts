/** Bytes that readers of JSON and of server-sent events look for. */
export const TAB = 0x09
export const LF = 0x0a
export const CR = 0x0d
export const SPACE = 0x20
export const QUOTE = 0x22
export const COMMA = 0x2c
export const COLON = 0x3a
export const OPEN_ARRAY = 0x5b
export const BACKSLASH = 0x5c
export const CLOSE_ARRAY = 0x5d
export const LOWER_N = 0x6e
export const LOWER_U = 0x75
export const OPEN_OBJECT = 0x7b
export const CLOSE_OBJECT = 0x7d
