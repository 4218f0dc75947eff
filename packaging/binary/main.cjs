// The main script of the single executable. Node.js mounts the assets as a virtual file system, with this file at its root.
const { existsSync } = require('node:fs')
const { join } = require('node:path')
const { pathToFileURL } = require('node:url')

const program = join(__dirname, 'program')
const main = join(program, 'dist/main.js')

// Node.js starts workers, and the demo its simulator, as `executable FILE ARGUMENTS`.
const [, , file = ''] = process.argv
const isChild = file.startsWith(program) && existsSync(file)
if (isChild) process.argv.splice(2, 1)
import(pathToFileURL(isChild ? file : main).href)
