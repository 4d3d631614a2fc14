import axios from 'axios'
// #region clients
import { axiosOptions, politeFetch, undiciInterceptor } from 'headgate/client'
import { Agent } from 'undici'

const polite = politeFetch()

export const withAxios = axios.create(axiosOptions(polite))
export const withUndici = new Agent().compose(undiciInterceptor(polite))
// #endregion
