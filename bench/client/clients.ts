// One way to call a server for each client. A call that fails in the end throws.
import axios from 'axios'
import axiosRetry from 'axios-retry'
import Bottleneck from 'bottleneck'
import { politeFetch } from 'headgate/client'
import ky from 'ky'
import PQueue from 'p-queue'

export const OURS = 'headgate'
export type Call = (url: string) => Promise<unknown>

const bare: Call = async (url) => {
  const response = await fetch(url)
  await response.text()
  if (!response.ok) throw new Error(`answered ${response.status}`)
}

function withAxios(retries: number | undefined): Call {
  const client = axios.create()
  axiosRetry(client, {
    retryCondition: (error) => axiosRetry.isNetworkOrIdempotentRequestError(error) || error.response?.status === 429,
    ...(retries !== undefined && { retries, retryDelay: axiosRetry.exponentialDelay }),
  })
  return (url) => client.get(url)
}

const clients: Record<string, () => Call> = {
  [OURS]: () => {
    const polite = politeFetch()
    return async (url) => (await polite(url)).text()
  },
  ky: () => (url) => ky(url).text(),
  'ky, 10 retries': () => (url) => ky(url, { retry: { limit: 10 } }).text(),
  'axios-retry': () => withAxios(undefined),
  'axios-retry, 10 exponential': () => withAxios(10),
  'p-queue, told 10/s': () => {
    const queue = new PQueue({ interval: 1000, intervalCap: 10 })
    return (url) => queue.add(() => bare(url))
  },
  'bottleneck, told 10/s': () => {
    const limiter = new Bottleneck({ reservoir: 10, reservoirRefreshAmount: 10, reservoirRefreshInterval: 1000 })
    return (url) => limiter.schedule(() => bare(url))
  },
}

export const CLIENTS = Object.keys(clients)

export function clientOf(name: string): Call {
  const make = clients[name]
  if (make === undefined) throw new Error(`no client ${name}`)
  return make()
}
