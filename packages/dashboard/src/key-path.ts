/** Where the admin port has a key: a segment for each part of it. */
export function pathOfKey(limit: string, parts: readonly string[]): string {
  // Browsers take such segments for steps up the path, however they are written: another key would be meant.
  if (parts.some((part) => part === '.' || part === '..'))
    throw new Error(`A browser cannot ask for a key named "." or "..": use headgate inspect.`)
  return ['keys', limit, ...parts].map(encodeURIComponent).join('/')
}
