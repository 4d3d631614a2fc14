/** The samples in a text for Prometheus, by name and labels. Throws if a line is none. */
export function samplesOf(text: string): Map<string, number> {
  const samples = new Map<string, number>()
  for (const line of text.split('\n')) {
    if (line === '' || /^# (HELP|TYPE) headgate_\w+ /.test(line)) continue
    const [, sample, value] = /^(headgate_\w+(?:\{(?:\w+="[^"\\\n]*",?)+\})?) (\S+)$/.exec(line) ?? []
    const number = value === '+Inf' ? Infinity : Number(value)
    if (sample === undefined || Number.isNaN(number)) throw new Error(`no sample: ${line}`)
    if (samples.has(sample)) throw new Error(`twice: ${sample}`)
    samples.set(sample, number)
  }
  return samples
}
