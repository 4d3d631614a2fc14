import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { freePort } from '../../headgate/test/redis-server.ts'
import { until } from '../../headgate/test/until.ts'
import { ends, folder } from './service.ts'

/** Where `npm test` puts one, if there is none. */
const cached = fileURLToPath(new URL('../../../node_modules/.cache/envoy/envoy/_bin/envoy', import.meta.url))
const program = [cached, 'envoy'].find((each) =>
  each === 'envoy' ? spawnSync(each, ['--version']).status === 0 : existsSync(each),
)

export const hasEnvoy = program !== undefined

/** A real Envoy in front of an upstream, which asks at `grpcPort` about every request; the routes say what. Ends with the test. */
export function startEnvoy(grpcPort: number, upstreamUrl: string, routes: readonly object[]): Promise<string> {
  const upstreamPort = Number(new URL(upstreamUrl).port)
  return startEnvoyWith((port) => JSON.stringify(configuration(port, grpcPort, upstreamPort, routes)))
}

/** One with a configuration of its own, for the port that it is to listen on. */
export async function startEnvoyWith(configured: (port: number) => string): Promise<string> {
  const port = await freePort()
  const file = join(folder(), 'envoy.yaml')
  writeFileSync(file, configured(port))
  const args = ['-c', file, '--concurrency', '1', '--disable-hot-restart', '-l', 'error']
  const envoy = spawn(program as string, args, { stdio: ['ignore', 'ignore', 'inherit'] })
  const exited = once(envoy, 'exit')
  ends(envoy, async (each) => {
    each.kill('SIGKILL')
    await exited
  })
  const url = `http://127.0.0.1:${port}`
  await until('envoy', async () => ((await fetch(`${url}/-/ready`)).status < 500 ? true : undefined))
  return url
}

const TYPES = 'type.googleapis.com/envoy.extensions.filters'

function configuration(port: number, grpcPort: number, upstreamPort: number, routes: readonly object[]): object {
  const limiter = {
    name: 'envoy.filters.http.ratelimit',
    typed_config: {
      '@type': `${TYPES}.http.ratelimit.v3.RateLimit`,
      domain: 'web',
      failure_mode_deny: true,
      status_on_error: { code: 'ServiceUnavailable' },
      // A machine that runs tests is slower than those that serve.
      timeout: '2s',
      enable_x_ratelimit_headers: 'DRAFT_VERSION_03',
      rate_limit_service: {
        transport_api_version: 'V3',
        grpc_service: { envoy_grpc: { cluster_name: 'headgate' } },
      },
    },
  }
  const ready = { match: { path: '/-/ready' }, direct_response: { status: 204 } }
  const manager = {
    '@type': `${TYPES}.network.http_connection_manager.v3.HttpConnectionManager`,
    stat_prefix: 'test',
    route_config: { virtual_hosts: [{ name: 'all', domains: ['*'], routes: [ready, ...routes] }] },
    http_filters: [
      limiter,
      { name: 'envoy.filters.http.router', typed_config: { '@type': `${TYPES}.http.router.v3.Router` } },
    ],
  }
  const http2 = {
    'envoy.extensions.upstreams.http.v3.HttpProtocolOptions': {
      '@type': 'type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions',
      explicit_http_config: { http2_protocol_options: { connection_keepalive: { interval: '1s', timeout: '1s' } } },
    },
  }
  const health = [
    {
      timeout: '1s',
      interval: '1s',
      unhealthy_threshold: 1,
      healthy_threshold: 1,
      grpc_health_check: { service_name: 'ratelimit' },
    },
  ]
  return {
    static_resources: {
      listeners: [
        {
          address: at(port),
          filter_chains: [
            { filters: [{ name: 'envoy.filters.network.http_connection_manager', typed_config: manager }] },
          ],
        },
      ],
      clusters: [
        cluster('upstream', upstreamPort, {}),
        cluster('headgate', grpcPort, { typed_extension_protocol_options: http2, health_checks: health }),
      ],
    },
  }
}

function at(port: number): object {
  return { socket_address: { address: '127.0.0.1', port_value: port } }
}

function cluster(name: string, port: number, more: object): object {
  const endpoints = [{ lb_endpoints: [{ endpoint: { address: at(port) } }] }]
  return { name, type: 'STATIC', connect_timeout: '5s', load_assignment: { cluster_name: name, endpoints }, ...more }
}
