import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { browserPath, signIn, startBrowser, visit } from './support/browser.ts'
import { PAGES, startConsole } from './support/console.ts'
import { ROOT_PASSWORD } from './support/gateway.ts'
import { furnish } from './support/showroom.ts'

/**
 * Takes a picture of every page, light and dark, wide and on a phone, to be looked at by eye: `npm run screenshots`.
 * A part of a page's address may be given to take only those; `--chinese` takes them in Chinese.
 */
const SIZES = [
  { name: 'wide', width: 1440, height: 900 },
  { name: 'phone', width: 390, height: 844 },
]
const DIRECTORY = 'screenshots'

const [wanted = ''] = process.argv.slice(2).filter(argument => !argument.startsWith('--'))
const language = process.argv.includes('--chinese') ? 'zh-CN' : 'en'
const nameOf = (path: string) => path.replace(/^\//, '').replace(/[^\w]+/g, '-') || 'overview'

if (browserPath() === undefined)
  throw new Error('no Chromium was found: install it, or name it in CHROMIUM_PATH')
mkdirSync(DIRECTORY, { recursive: true })
const server = await startConsole()
const browser = await startBrowser()
const room = await furnish(server.url, server.api, server.simulator.url)
const pages = [
  '/sign-in',
  ...PAGES,
  `/channels/${room.channelId}`,
  `/channels/${room.channelId}/edit`,
  `/tokens/${room.tokenId}`,
  `/users/${room.userId}`,
  `/usage/${room.requestId}`,
  `/videos/${room.videoId}`,
  `/videos/${room.failedVideoId}`,
  '/prices?edit=gpt-4o',
].filter(path => path.includes(wanted))

for (const theme of ['light', 'dark'] as const)
  for (const { name, width, height } of SIZES) {
    const { page, context } = await visit(browser, server.origin, { theme, language, width, height })
    await signIn(page, server.url, { username: 'root', password: ROOT_PASSWORD })
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
