/** A resource of this machine that is exhausted. Neither a provider nor a client has caused it. */
export type Shortage = {
  /** The error code of the system, such as `EMFILE`. */
  readonly code: string
  readonly resource: string
  /** What an operator can change. */
  readonly advice: string
}

const SHORTAGES: Readonly<Record<string, Omit<Shortage, 'code'>>> = {
  EMFILE: {
    resource: 'file descriptors of this process',
    advice: 'Raise the limit of open files (ulimit -n, LimitNOFILE) or lower SLUICE_MAX_CONNECTIONS.',
  },
  ENFILE: {
    resource: 'file descriptors of the whole system',
    advice: 'Raise fs.file-max or lower SLUICE_MAX_CONNECTIONS.',
  },
  EADDRNOTAVAIL: {
    resource: 'local ports for connections to providers',
    advice: 'Widen net.ipv4.ip_local_port_range or lower SLUICE_MAX_CONNECTIONS.',
  },
  ENOBUFS: {
    resource: 'memory for sockets',
    advice: 'Raise net.ipv4.tcp_mem or lower SLUICE_MAX_CONNECTIONS.',
  },
  ENOMEM: { resource: 'memory', advice: 'Give the machine more memory or lower SLUICE_MAX_MEMORY_MB.' },
  ENOSPC: {
    resource: 'disk space',
    advice: 'Free space on the disk of SLUICE_DATA or lower SLUICE_MAX_TMP_MB.',
  },
  EDQUOT: {
    resource: 'disk quota',
    advice: 'Raise the quota of the user that runs the gateway or lower SLUICE_MAX_TMP_MB.',
  },
}

/** Budgets of the gateway itself. */
export const BUDGET_SHORTAGES = {
  memory: {
    code: 'memory_budget',
    resource: 'memory for request and response bodies',
    advice: 'Raise SLUICE_MAX_MEMORY_MB.',
  },
  tmp: { code: 'tmp_budget', resource: 'disk space for uploads', advice: 'Raise SLUICE_MAX_TMP_MB.' },
} as const satisfies Readonly<Record<string, Shortage>>

type Coded = { readonly code?: unknown; readonly address?: unknown; readonly errors?: readonly unknown[] }

/** The shortage that a system error reports; undefined for every other error. */
export function shortageOf(error: unknown): Shortage | undefined {
  if (typeof error !== 'object' || error === null) return undefined
  const { code, address, errors } = error as Coded
  // A host name with several addresses: each of them failed.
  if (Array.isArray(errors) && errors.length > 0) return errors.map(shortageOf).find(Boolean)
  if (typeof code !== 'string' || !Object.hasOwn(SHORTAGES, code)) return undefined
  // A machine without IPv6 reports the same error for every IPv6 address.
  if (code === 'EADDRNOTAVAIL' && String(address).includes(':')) return undefined
  const shortage = SHORTAGES[code]
  return shortage && { code, ...shortage }
}
