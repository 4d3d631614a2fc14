import { EnvoyClient } from './envoy-client.ts'
import { type Instance, instance, rulesOf } from './service.ts'

/** Descriptors of the domain `web` as they stand in a rules file. */
export function web(...descriptors: readonly string[]): string {
  const lines = descriptors.map((each) => `        - ${each}`)
  return `envoy:\n  domains:\n    - domain: web\n      descriptors:\n${lines.join('\n')}`
}

export function perHour(key: string, requests: number, more = ''): string {
  return `{ key: ${key}, rate_limit: { unit: hour, requests_per_unit: ${requests} }${more} }`
}

/** Rules with a free port for Envoy. */
export function envoyRules(envoy: string, more = '', server = ''): string {
  return rulesOf('  {}', `${envoy}\n${more}`, server).replace('grpcPort: false', 'grpcPort: 0')
}

export interface Serving {
  readonly service: Instance
  readonly client: EnvoyClient
}

export async function serving(
  envoy: string,
  more = '',
  server = '',
  env: Readonly<Record<string, string>> = {},
): Promise<Serving> {
  const service = await instance(envoyRules(envoy, more, server), env)
  return { service, client: new EnvoyClient(service.grpcPort) }
}
