declare module 'virtual:routes' {
  type Row = { readonly method: string; readonly path: string; readonly isWhole: boolean }
  export const routes: Readonly<Record<import('./contract.ts').RouteName, Row>>
}
