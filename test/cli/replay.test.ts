import { describeReplay } from '../support/saved-test-runs.ts'

describeReplay(1)
