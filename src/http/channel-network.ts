import { createPrivateKey, X509Certificate } from 'node:crypto'
import {
  DIRECT,
  IP_FAMILIES,
  type IpFamily,
  isIpFamily,
  type ProxyAddress,
  readProxyUrl,
} from '../domain/channel-network.ts'
import type { JsonObject } from '../domain/json-object.ts'

const MAX_CA_BYTES = 32 * 1024
const MAX_CLIENT_CERT_BYTES = 12 * 1024
const MAX_CLIENT_KEY_BYTES = 8 * 1024

/** A member of `setting` that cannot be used, and why, as the end of a sentence that begins with its name. */
export type NetworkFault = { readonly name: string; readonly message: string }

/** How the gateway connects to the provider of a channel. */
export type ChannelNetwork = {
  readonly proxy?: ProxyAddress | typeof DIRECT
  /** Certificates (PEM) that are trusted in addition. */
  readonly ca?: string
  readonly client?: { readonly cert: string; readonly key: string }
  readonly ipFamily?: IpFamily
  /** The stored setting is invalid, so no connection is made. */
  readonly fault?: NetworkFault
}

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g

/** The certificates of a PEM text; undefined if it has none, or one that is invalid. */
export function readCertificates(pem: string): readonly X509Certificate[] | undefined {
  try {
    const certificates = (pem.match(CERTIFICATE) ?? []).map(text => new X509Certificate(text))
    return certificates.length > 0 ? certificates : undefined
  } catch {
    return undefined
  }
}

function readKey(pem: string) {
  try {
    return createPrivateKey({ key: pem, format: 'pem' })
  } catch {
    return undefined
  }
}

class FaultError extends Error {
  readonly fault: NetworkFault
  constructor(name: string, message: string) {
    super(`${name} ${message}`)
    this.fault = { name, message }
  }
}

function textOf(setting: JsonObject, name: string, maxBytes: number): string | undefined {
  const value = setting[name]
  if (value === undefined || value === null || value === '') return undefined
  if (typeof value !== 'string') throw new FaultError(name, 'must be a string')
  if (Buffer.byteLength(value) > maxBytes) throw new FaultError(name, `must have at most ${maxBytes} bytes`)
  return value
}

const MAX_PROXY_BYTES = 2_000

function readProxy(setting: JsonObject): ChannelNetwork['proxy'] {
  const text = textOf(setting, 'proxy', MAX_PROXY_BYTES)?.trim()
  if (text === undefined || text === DIRECT) return text
  const reading = readProxyUrl(text)
  if ('fault' in reading) throw new FaultError('proxy', reading.fault)
  return reading.value
}

function readCa(setting: JsonObject): string | undefined {
  const ca = textOf(setting, 'ca', MAX_CA_BYTES)
  if (ca !== undefined && readCertificates(ca) === undefined)
    throw new FaultError('ca', 'must be one or more valid certificates in PEM')
  return ca
}

function readClient(setting: JsonObject): ChannelNetwork['client'] {
  const cert = textOf(setting, 'client_cert', MAX_CLIENT_CERT_BYTES)
  const key = textOf(setting, 'client_key', MAX_CLIENT_KEY_BYTES)
  if (cert === undefined && key === undefined) return undefined
  if (cert === undefined) throw new FaultError('client_cert', 'is required with client_key')
  if (key === undefined) throw new FaultError('client_key', 'is required with client_cert')
  const [certificate] = readCertificates(cert) ?? []
  if (certificate === undefined) throw new FaultError('client_cert', 'must be a valid certificate in PEM')
  const privateKey = readKey(key)
  if (privateKey === undefined)
    throw new FaultError('client_key', 'must be an unencrypted private key in PEM')
  if (!certificate.checkPrivateKey(privateKey))
    throw new FaultError('client_key', 'must be the key of the first certificate in client_cert')
  return { cert, key }
}

function readFamily({ ip_family }: JsonObject): IpFamily | undefined {
  if (ip_family === undefined || ip_family === null || ip_family === '') return undefined
  if (!isIpFamily(ip_family)) throw new FaultError('ip_family', `must be one of ${IP_FAMILIES.join(', ')}`)
  return ip_family
}

/** The members of `setting` that this file reads. */
export const NETWORK_MEMBERS = ['proxy', 'ca', 'client_cert', 'client_key', 'ip_family'] as const

/** Parses the setting of a channel; undefined: it says nothing about the network. */
export function readChannelNetwork(setting: JsonObject): ChannelNetwork | undefined {
  try {
    const [proxy, ca, client, ipFamily] = [
      readProxy(setting),
      readCa(setting),
      readClient(setting),
      readFamily(setting),
    ]
    const network: ChannelNetwork = {
      ...(proxy && { proxy }),
      ...(ca && { ca }),
      ...(client && { client }),
      ...(ipFamily && { ipFamily }),
    }
    return Object.keys(network).length > 0 ? network : undefined
  } catch (error) {
    if (error instanceof FaultError) return { fault: error.fault }
    throw error
  }
}
