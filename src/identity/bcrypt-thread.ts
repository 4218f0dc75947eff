import { compareSync } from 'bcryptjs'
import { runJobs } from '../host/thread-jobs.ts'

/** A password and the bcrypt hash that an import brought. */
export type BcryptJob = { readonly password: string; readonly hash: string }

runJobs<BcryptJob, boolean>(({ password, hash }) => compareSync(password, hash))
