import { QueryClientProvider } from '@tanstack/react-query'
import { RouterProvider } from '@tanstack/react-router'
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { createQueryClient } from './api/query.ts'
import { Announcer } from './look/announce.tsx'
import { openPartsOfInvalidFields } from './look/invalid-fields.ts'
import './look/nonce.ts'
import './look/theme.css'
import { Toasts } from './look/toast.tsx'
import { createConsoleRouter } from './router.tsx'
import { reloadOnUpgrade } from './shell/reload-on-upgrade.ts'
import { startTexts } from './texts/index.ts'

reloadOnUpgrade()
openPartsOfInvalidFields()
await startTexts()
const client = createQueryClient()
const router = createConsoleRouter(client)

createRoot(document.getElementById('root') as HTMLElement).render(
  <StrictMode>
    <QueryClientProvider client={client}>
      <RouterProvider router={router} />
      <Toasts />
      <Announcer />
    </QueryClientProvider>
  </StrictMode>,
)
