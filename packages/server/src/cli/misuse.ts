/** The command was called in a way that cannot be meant: exit code 2. */
export class Misuse extends Error {
  override readonly name = 'Misuse'
}
