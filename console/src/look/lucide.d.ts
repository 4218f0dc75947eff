declare module 'lucide:*' {
  const icon: import('./icon.ts').Icon
  export default icon
}
