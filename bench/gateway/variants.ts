export const NO_RULES = 'gateway, no rules'
export const THREE = 'gateway, three limits'
export const REDIS = 'gateway, three limits in Redis'
export const PEER = '@fastify/http-proxy'
