/**
 * `fetch` for servers that are not trusted to come to an end: an answer of more bytes than a message may have is broken off.
 *
 * - B1. Of a stream of events each event is bounded, for it may live as long as it likes; of any other answer all of it.
 * - B2. A stream of events is passed on by whole lines: its reader would look at the beginning of a long one again and again.
 */
import type { FetchLike } from "@modelcontextprotocol/client"

/** With messages of at most so many bytes. */
export const make =
  (most: number): FetchLike =>
  async (url, init) => {
    const response = await fetch(url, init)
    // What says where to go on is not read, and has no body that could be replaced.
    if (response.body === null || response.status < 200 || (response.status >= 300 && response.status < 400)) {
      return response
    }
    const isStream = /^text\/event-stream\b/i.test(response.headers.get("content-type") ?? "")
    const measure = isStream ? eventMeter() : wholeMeter()
    const cut = isStream ? wholeLines() : { add: (piece: Uint8Array) => piece, end: () => nothing }
    const bounded = new TransformStream<Uint8Array, Uint8Array>({
      transform: (piece, controller) => {
        if (measure(piece) > most) return controller.error(new Error(`it sent a message of more than ${most} bytes`))
        const ready = cut.add(piece)
        if (ready.length > 0) controller.enqueue(ready)
      },
      flush: (controller) => {
        const rest = cut.end()
        if (rest.length > 0) controller.enqueue(rest)
      }
    })
    return new Response(response.body.pipeThrough(bounded), response)
  }

const nothing = new Uint8Array()

/** B2 */
const wholeLines = () => {
  let begun: Array<Uint8Array> = []
  return {
    add: (piece: Uint8Array): Uint8Array => {
      const end = Math.max(piece.lastIndexOf(0x0a), piece.lastIndexOf(0x0d)) + 1
      if (end === 0) {
        begun.push(piece)
        return nothing
      }
      const lines = Buffer.concat([...begun, piece.subarray(0, end)])
      begun = [piece.subarray(end)]
      return lines
    },
    end: (): Uint8Array => Buffer.concat(begun)
  }
}

/** Takes the next bytes; gives how many the message has so far. */
type Meter = (piece: Uint8Array) => number

const wholeMeter = (): Meter => {
  let size = 0
  return (piece) => (size += piece.length)
}

/** B1: an event ends with an empty line; lines end with LF, CR or both. */
const eventMeter = (): Meter => {
  let size = 0
  let isLineEmpty = true
  let isAfterReturn = false
  return (piece) => {
    let largest = 0
    for (const byte of piece) {
      size++
      const isReturn = byte === 0x0d
      const isSecondHalf = byte === 0x0a && isAfterReturn
      if (isReturn || (byte === 0x0a && !isSecondHalf)) {
        largest = Math.max(largest, size)
        if (isLineEmpty) size = 0
        isLineEmpty = true
      } else if (!isSecondHalf) isLineEmpty = false
      isAfterReturn = isReturn
    }
    return Math.max(largest, size)
  }
}
