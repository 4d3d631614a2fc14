import { readFileSync } from 'node:fs'
import type { Server } from 'node:https'
import type { SecureContextOptions } from 'node:tls'
import type { ServerRules } from './config/server-schema.ts'
import type { Log } from './log.ts'
import { watchFiles } from './watch.ts'

type TlsRules = NonNullable<ServerRules['tls']>

export function readCertificate({ cert, key, ca, requestCert }: TlsRules): SecureContextOptions & {
  requestCert: boolean
  rejectUnauthorized: boolean
} {
  return {
    cert: readFileSync(cert),
    key: readFileSync(key),
    ...(ca !== undefined && { ca: readFileSync(ca) }),
    requestCert,
    rejectUnauthorized: requestCert,
  }
}

/** A new certificate serves new connections; one that cannot be used leaves the old one in place, and is told of. */
export function watchCertificate(server: Server, tls: TlsRules, log: Log): void {
  const files = [tls.cert, tls.key, ...(tls.ca === undefined ? [] : [tls.ca])]
  const unwatch = watchFiles(files, [], () => {
    try {
      server.setSecureContext(readCertificate(tls))
      log.info({ cert: tls.cert }, 'certificate replaced')
    } catch (error) {
      // Half of it may be written yet: the other half tells again.
      log.warn({ cert: tls.cert, error: String(error) }, 'certificate refused, the last good one serves')
    }
  })
  server.on('close', unwatch)
}
