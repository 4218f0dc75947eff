import tailwind from '@tailwindcss/vite'
import react from '@vitejs/plugin-react'
import { defineConfig } from 'vite'
import { lucide } from './lucide.ts'
import { routeTable } from './route-table.ts'

export default defineConfig({
  // Relative URLs, so that one build works under every path prefix. The gateway completes the URLs of the page.
  base: './',
  plugins: [routeTable(), lucide(), react(), tailwind()],
  build: {
    target: ['chrome123', 'firefox128', 'safari17.5'],
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 600,
    reportCompressedSize: false,
    license: { fileName: 'licenses.md' },
  },
})
