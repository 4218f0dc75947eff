import { tokensFile } from '../../host/program-file.ts'
import { readInThread } from '../../host/program-thread.ts'
import { runJobs } from '../../host/thread-jobs.ts'
import { createTokenMerge } from './token-merge.ts'
import { Vocabulary } from './vocabulary.ts'

/** Reading the vocabulary takes time, and so does counting a long text, so both are kept off the main thread. */
runJobs(createTokenMerge(new Vocabulary(readInThread(tokensFile()))))
