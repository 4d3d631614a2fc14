export function normalPath(t: string): string {
  return t
}
