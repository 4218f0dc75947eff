import { describeKilledImport } from '../../support/killed-import.ts'

// At its start, and in its middle.
describeKilledImport({ users: 300, tokens: 3_000, killedAfter: [1, 1_000] })
