import type { Listener } from './listener.ts'

/**
 * The same stream, which a listener hears. Read no faster than it is asked for, given up at its source when it is given up here, and
 * at its end only when the call is settled: who asks again right away finds it counted.
 */
export function passOn(source: ReadableStream, listener: Listener): ReadableStream {
  const reader = source.getReader()
  const next = async (): Promise<StreamPiece> => {
    try {
      return await reader.read()
    } catch (error) {
      await listener.breakOff(error)
      throw error
    }
  }
  const pull = async (controller: StreamController) => {
    const { done, value } = await next()
    if (!done) {
      listener.push(value)
      controller.enqueue(value)
      return
    }
    await listener.end()
    controller.close()
  }
  const cancel = async (reason: unknown) => {
    const settled = listener.abort()
    await reader.cancel(reason)
    await settled
  }
  return new ReadableStream({ pull, cancel }, { highWaterMark: 0 })
}
