import { describeImportOf } from '../support/scaled-import.ts'

// A large one is a system test.
describeImportOf({ users: 60, tokens: 450, channels: 20 })
