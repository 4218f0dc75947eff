declare module 'undici/lib/llhttp/llhttp_simd-wasm.js' {
  const wasm: Buffer
  export default wasm
}
