import { readFileSync, writeFileSync } from 'node:fs'
import { SETTINGS_PAGE, settingsPage } from './support/settings-page.ts'

/** `npm run docs:settings`: writes the tables of docs/operating/settings.md. */
const page = new URL(`../${SETTINGS_PAGE}`, import.meta.url)
writeFileSync(page, settingsPage(readFileSync(page, 'utf8')))
