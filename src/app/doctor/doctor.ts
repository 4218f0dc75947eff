import type { Finding } from '../../cli/finding.ts'
import { version } from '../../host/version.ts'
import { readConfig, settingFaults, unknownSettings } from '../config.ts'
import { examineStore } from './database.ts'
import { examineFiles } from './files.ts'
import { examineMachine } from './limits.ts'
import { examineListening, examineOutgoing, examineProviders, examineProxies } from './network.ts'

type Env = Readonly<Record<string, string | undefined>>

function examineSettings(
  faults: ReadonlyMap<string, string>,
  unknown: readonly string[],
): readonly Finding[] {
  const check = 'settings'
  const findings: Finding[] = [
    ...[...faults.values()].map((message): Finding => ({ check, level: 'failure', message })),
    ...unknown.map(
      (name): Finding => ({
        check,
        level: 'warning',
        message: `${name} is not a setting; "sluice start --help" lists all`,
      }),
    ),
  ]
  return findings.length > 0
    ? findings
    : [{ check, level: 'ok', message: 'all environment variables are valid' }]
}

/** Examines everything that a gateway with this environment needs. Changes nothing. */
export async function examineGateway(env: Env): Promise<readonly Finding[]> {
  const faults = settingFaults(env)
  // The other checks use the defaults of invalid settings.
  const config = readConfig(Object.fromEntries(Object.entries(env).filter(([name]) => !faults.has(name))))
  const { findings, store } = await examineStore(config)
  const outgoing = await examineOutgoing(config, env)
  return [
    { check: 'version', level: 'ok', message: `Sluice ${version} on Node.js ${process.versions.node}` },
    ...examineSettings(faults, unknownSettings(env)),
    ...examineFiles(config),
    ...examineMachine(config),
    ...findings,
    ...outgoing.findings,
    ...(await examineProviders(outgoing.network, store)),
    ...examineProxies(config),
    ...(await examineListening(config)),
  ]
}
