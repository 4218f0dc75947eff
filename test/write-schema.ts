import { writeFileSync } from 'node:fs'
import { configSchema } from '../src/manage/contract/config-file.ts'

/** Writes the JSON schema of configuration files. */
writeFileSync('docs/reference/sluice.schema.json', `${JSON.stringify(configSchema(), null, 2)}\n`)
