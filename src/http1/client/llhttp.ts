import wasm from 'undici/lib/llhttp/llhttp_simd-wasm.js'

/** The functions of llhttp that the client calls. A parser is an address in its memory. */
export type Llhttp = {
  readonly memory: { readonly buffer: ArrayBuffer }
  _initialize(): void
  malloc(bytes: number): number
  llhttp_alloc(type: number): number
  llhttp_free(parser: number): void
  llhttp_reset(parser: number): void
  /** Returns one of the codes below, or the code that a callback returned. */
  llhttp_execute(parser: number, at: number, length: number): number
  /** After a callback has returned PAUSED. */
  llhttp_resume(parser: number): void
  llhttp_get_error_pos(parser: number): number
  llhttp_get_http_major(parser: number): number
  /** 1: the message ends with the connection. */
  llhttp_message_needs_eof(parser: number): number
  llhttp_errno_name(code: number): number
}

/** The callbacks of a parser. Any result but 0 stops it with that code. */
export type LlhttpCallbacks = {
  wasm_on_message_begin(parser: number): number
  wasm_on_url(parser: number, at: number, length: number): number
  wasm_on_status(parser: number, at: number, length: number): number
  wasm_on_header_field(parser: number, at: number, length: number): number
  wasm_on_header_value(parser: number, at: number, length: number): number
  /** The result may also be NO_BODY, or PAUSED before the body. */
  wasm_on_headers_complete(parser: number, status: number, isUpgrade: number, isPersistent: number): number
  wasm_on_body(parser: number, at: number, length: number): number
  wasm_on_message_complete(parser: number): number
}

/** The type of a parser of responses. */
export const RESPONSE = 2
export const OK = 0
export const NO_BODY = 1
/** A callback stopped the parser before the content of a message, or after a complete message. */
export const PAUSED = 21
/** A callback refused the message. */
export const USER = 24

/** The part of the WebAssembly API that is used here; the types of Node.js do not have it. */
type WebAssemblyApi = {
  readonly Module: new (bytes: Uint8Array) => object
  readonly Instance: new (module: object, imports: object) => { readonly exports: unknown }
}

/**
 * The HTTP/1.1 parser of Node.js, compiled to WebAssembly. undici contains this build, and the version of undici is
 * pinned.
 */
export function loadLlhttp(callbacks: LlhttpCallbacks): Llhttp {
  const { Module, Instance } = (globalThis as unknown as { readonly WebAssembly: WebAssemblyApi }).WebAssembly
  const { exports } = new Instance(new Module(wasm), { env: callbacks })
  const llhttp = exports as Llhttp
  llhttp._initialize()
  return llhttp
}

/** The name of a code, such as `HPE_INVALID_VERSION`. */
export function nameOf(llhttp: Llhttp, code: number): string {
  const bytes = Buffer.from(llhttp.memory.buffer, llhttp.llhttp_errno_name(code))
  return bytes.toString('latin1', 0, bytes.indexOf(0))
}
