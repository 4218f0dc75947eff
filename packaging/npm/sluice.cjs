#!/usr/bin/env node
// The command of the npm package. Every Node.js, however old, must be able to parse this file and to say what is missing:
// it is plain ES5, and `import()`, which old versions cannot parse, is in the file that it loads.
var version = process.versions.node

if (parseInt(version, 10) < 26) {
  // biome-ignore lint/style/useTemplate: old versions cannot parse templates
  process.stderr.write('Sluice needs Node.js 26 or newer (this is ' + version + ')\n')
  process.exit(78)
}
require('./load.cjs')
