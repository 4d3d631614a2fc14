import { readFileSync } from 'node:fs'
import type { Server } from 'node:https'
import { createSecureContext, type SecureContextOptions } from 'node:tls'
import type { ServerRules } from './config/server-schema.ts'
import type { Log } from './log.ts'
import { Watch } from './watch.ts'

type TlsRules = NonNullable<ServerRules['tls']>

export function readCertificate({ cert, key, ca, requestCert }: TlsRules): SecureContextOptions & {
  requestCert: boolean
  rejectUnauthorized: boolean
} {
  const files = {
    cert: readFileSync(cert),
    key: readFileSync(key),
    ...(ca !== undefined && { ca: readFileSync(ca) }),
  }
  try {
    createSecureContext(files)
  } catch (error) {
    // OpenSSL says what is wrong, but not with which file.
    throw new Error(`${cert} with the key ${key} cannot be used: ${(error as Error).message}`, { cause: error })
  }
  return { ...files, requestCert, rejectUnauthorized: requestCert }
}

/** A new certificate serves new connections; one that cannot be used leaves the old one in place, and is told of. */
export function watchCertificate(server: Server, tls: TlsRules, log: Log): void {
  const files = [tls.cert, tls.key, ...(tls.ca === undefined ? [] : [tls.ca])]
  const watch = new Watch(() => {
    try {
      server.setSecureContext(readCertificate(tls))
      log.info({ cert: tls.cert }, 'certificate replaced')
    } catch (error) {
      // Half of it may be written yet: the other half tells again.
      log.warn({ cert: tls.cert, error: String(error) }, 'certificate refused, the last good one serves')
    }
  })
  watch.these(files, [])
  server.on('close', () => watch.close())
}
