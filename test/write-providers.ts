import { writeFileSync } from 'node:fs'
import { providersPage } from './support/providers-page.ts'

/** `npm run docs:providers`: writes docs/providers.md. */
writeFileSync(new URL('../docs/providers.md', import.meta.url), providersPage())
