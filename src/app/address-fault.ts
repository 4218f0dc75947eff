import { SettingError } from './config.ts'

/** The settings of an address to listen on. */
type AddressSettings = { readonly port: string; readonly host: string }

/** The setting because of which the gateway cannot listen; undefined for any other error. */
export function addressFault(error: unknown, settings: AddressSettings): SettingError | undefined {
  const { code, syscall, address, port, message } = error as NodeJS.ErrnoException & {
    readonly address?: string
    readonly port?: number
  }
  if (code === 'EADDRINUSE')
    return new SettingError(settings.port, `is already in use: another program listens on ${address}:${port}`)
  if (code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND' || code === 'EAI_AGAIN')
    return new SettingError(settings.host, 'must be an address of this machine')
  if (syscall === 'listen' && (code === 'EACCES' || code === 'EPERM'))
    return new SettingError(settings.port, `cannot be used: ${message}`)
  return undefined
}
