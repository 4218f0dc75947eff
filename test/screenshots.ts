import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { signIn, startBrowser, visit } from './support/browser.ts'
import { PAGES, startConsole } from './support/console.ts'
import { addContent } from './support/console-content.ts'
import { ROOT_PASSWORD } from './support/gateway.ts'
import { programPath } from './support/programs.ts'

/**
 * Takes a screenshot of every page, light and dark, at three widths, for review: `npm run screenshots`.
 * A part of a path limits it to matching pages. `--chinese` takes them in Chinese and `--user` as a user without admin
 * rights. `--light`, `--dark`, `--wide`, `--phone` and `--narrow` limit themes and widths.
 */
const SIZES = [
  { name: 'wide', width: 1440, height: 900 },
  { name: 'phone', width: 375, height: 812 },
  { name: 'narrow', width: 320, height: 640 },
]
const THEMES = [{ name: 'light' }, { name: 'dark' }] as const
const DIRECTORY = 'screenshots'

const [pathPart = ''] = process.argv.slice(2).filter(argument => !argument.startsWith('--'))
const language = process.argv.includes('--chinese') ? 'zh-CN' : 'en'
const person = process.argv.includes('--user')
  ? { username: 'ana', password: 'password of ana' }
  : { username: 'root', password: ROOT_PASSWORD }
/** The entries named on the command line, or all when none is named. */
const chosen = <Named extends { readonly name: string }>(all: readonly Named[]): readonly Named[] => {
  const selected = all.filter(({ name }) => process.argv.includes(`--${name}`))
  return selected.length > 0 ? selected : all
}
const nameOf = (path: string) => path.replace(/^\//, '').replace(/[^\w]+/g, '-') || 'overview'

if (programPath('chromium') === undefined)
  throw new Error('Chromium not found: install it, or set CHROMIUM_PATH')
mkdirSync(DIRECTORY, { recursive: true })
const server = await startConsole()
const browser = await startBrowser()
const content = await addContent(server.url, server.api, server.simulator.url)
const pages = [
  '/sign-in',
  ...PAGES,
  `/channels/${content.channelId}`,
  `/channels/${content.channelId}/edit`,
  `/tokens/${content.tokenId}`,
  `/users/${content.userId}`,
  `/usage/${content.requestId}`,
  `/videos/${content.videoId}`,
  `/videos/${content.failedVideoId}`,
  '/prices?edit=gpt-4o',
].filter(path => path.includes(pathPart))

for (const { name: theme } of chosen(THEMES))
  for (const { name, width, height } of chosen(SIZES)) {
    const { page, context } = await visit(browser, server.origin, { theme, language, width, height })
    await signIn(page, server.url, person)
    for (const path of pages) {
      await page.goto(`${server.url}${path}`)
      await page.locator('h1').waitFor()
      await page.waitForLoadState('networkidle')
      const file = join(DIRECTORY, `${nameOf(path)}-${theme}-${name}.png`)
      await page.screenshot({ path: file })
      console.log(file)
    }
    await context.close()
  }
await browser.close()
await server.close()
