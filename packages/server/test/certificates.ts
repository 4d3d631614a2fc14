import { execFileSync, spawnSync } from 'node:child_process'
import { copyFileSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { folder } from './service.ts'

export const hasOpenssl = spawnSync('openssl', ['version']).status === 0

if (!hasOpenssl && process.env.CI === 'true') throw new Error('no openssl on the PATH: in CI its tests are not skipped')

export interface Identity {
  readonly cert: string
  readonly key: string
}

/** Signs certificates that last a day. */
export class Authority {
  readonly #folder = folder()
  #made = 0

  constructor() {
    const subject = ['-subj', '/CN=headgate tests', '-addext', 'basicConstraints=critical,CA:TRUE']
    this.#openssl('req', '-x509', ...newKey('ca.key'), '-days', '1', ...subject, '-out', 'ca.crt')
  }

  get file(): string {
    return join(this.#folder, 'ca.crt')
  }

  get pem(): Buffer {
    return readFileSync(this.file)
  }

  /** For this name and the loopback interface; the files of its two parts. */
  sign(name: string): Identity {
    const id = `${++this.#made}`
    writeFileSync(join(this.#folder, `${id}.ext`), 'subjectAltName=DNS:localhost,IP:127.0.0.1')
    this.#openssl('req', ...newKey(`${id}.key`), '-subj', `/CN=${name}`, '-out', `${id}.csr`)
    const by = ['-CA', 'ca.crt', '-CAkey', 'ca.key', '-CAcreateserial', '-days', '1', '-extfile', `${id}.ext`]
    this.#openssl('x509', '-req', '-in', `${id}.csr`, ...by, '-out', `${id}.crt`)
    return { cert: join(this.#folder, `${id}.crt`), key: join(this.#folder, `${id}.key`) }
  }

  #openssl(...args: string[]): void {
    execFileSync('openssl', args, { cwd: this.#folder, stdio: 'ignore' })
  }
}

function newKey(file: string): string[] {
  return ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', file]
}

/** Puts another identity where one was, file by file. */
export function replace(identity: Identity, by: Identity): void {
  for (const part of ['key', 'cert'] as const) {
    copyFileSync(by[part], `${identity[part]}.new`)
    renameSync(`${identity[part]}.new`, identity[part])
  }
}
