import { before } from 'node:test'
import { PASSWORD_COST } from '../../src/identity/passwords.ts'
import { type Gateway, suiteGateway } from './gateway.ts'

/** Another address of one /64 with every call. */
export const inOneNetwork = (index: number) =>
  `2001:db8:7:1:${index.toString(16)}::${((index * 7919) % 65_536).toString(16)}`

/** A gateway whose queue of password hashes a test can fill, and a user of it, for a suite. */
export function suiteFlood() {
  const gateway = suiteGateway({
    engine: 'sqlite',
    env: { SLUICE_TRUSTED_PROXIES: '127.0.0.1' },
    // Cheaper hashes would not fill the queue.
    passwordCost: PASSWORD_COST,
  })
  const alice = {} as Awaited<ReturnType<Gateway['createUser']>>
  before(async () => {
    Object.assign(alice, await gateway.createUser({ username: 'alice' }))
  })

  const login = (address: string, username: string, password: string) =>
    gateway.api(
      'POST',
      '/api/user/login',
      { username, password },
      { token: null, headers: { 'x-forwarded-for': address }, expectedRefusal: 'overloaded' },
    )

  /** Sends concurrent sign-ins from these addresses until `work` is done. */
  async function whileFlooded<T>(addressAt: (index: number) => string, work: () => Promise<T>): Promise<T> {
    let count = 0
    let isOver = false
    const overloaded = Promise.withResolvers<void>()
    const senders = Array.from({ length: 60 }, async () => {
      while (!isOver) {
        const index = ++count
        const { status } = await login(addressAt(index), `stranger-${index}`, 'a wrong password')
        if (status === 503) overloaded.resolve()
      }
    })
    await overloaded.promise
    try {
      return await work()
    } finally {
      isOver = true
      await Promise.all(senders)
    }
  }

  return { gateway, alice, login, whileFlooded }
}
