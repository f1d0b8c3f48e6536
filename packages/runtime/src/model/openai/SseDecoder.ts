/**
 * The payloads of a streamed response body.
 *
 * Owns: framing. Text comes in pieces cut anywhere; whole `data` payloads come
 * out. Does not own: what a payload means (`ChatDecoder`) or UTF-8 (the caller
 * hands over decoded text).
 *
 * - S1. A body that starts like a JSON document is one payload: some servers
 *   answer a streaming request with an unstreamed response.
 * - S2. A last event without its blank line still counts; whether it is whole is
 *   for its reader to see.
 * - S3. A line, an event or a document is held up to a limit; then nothing more is read.
 */

import * as AnswerSize from "../AnswerSize.ts"

/** Decoder of one response body. */
export interface SseDecoder {
  /** Payloads completed by this piece of text. */
  readonly push: (text: string) => ReadonlyArray<string>
  /** Payload left over when the body has ended (S1, S2). */
  readonly end: () => string | undefined
  /** Is there more of one line, event or document than is held (S3)? */
  readonly isTooLong: () => boolean
}

/** A decoder for one response body. */
export const make = (): SseDecoder => {
  let rest = "" // the line not yet ended, or the document so far
  let event: string | undefined // data lines of the event not yet ended
  let isDocument: boolean | undefined

  const line = (text: string, payloads: Array<string>): void => {
    if (text === "") {
      if (event !== undefined) payloads.push(event)
      event = undefined
      return
    }
    if (!text.startsWith("data:")) return // comments, event names, ids
    const data = text.startsWith("data: ") ? text.slice(6) : text.slice(5)
    event = event === undefined ? data : `${event}\n${data}`
  }

  const isTooLong = (): boolean => rest.length + (event?.length ?? 0) > AnswerSize.mostHeld

  return {
    isTooLong,
    push: (text) => {
      if (isTooLong()) return []
      rest += text
      if (isDocument === undefined) {
        rest = rest.replace(/^[\s\uFEFF]+/, "")
        if (rest === "") return []
        const start = rest[0]
        isDocument = start === "{" || start === "[" // S1
      }
      // A line that goes on is searched when it ends: searching it with every piece copies it with every piece.
      if (isDocument || !text.includes("\n")) return []
      const payloads: Array<string> = []
      let from = 0
      for (let at = rest.indexOf("\n"); at >= 0; at = rest.indexOf("\n", from)) {
        line(rest.slice(from, at > from && rest.charCodeAt(at - 1) === 13 ? at - 1 : at), payloads)
        from = at + 1
      }
      rest = from === 0 ? rest : rest.slice(from)
      return payloads
    },
    end: () => {
      if (isDocument) return rest
      const payloads: Array<string> = []
      line(rest.endsWith("\r") ? rest.slice(0, -1) : rest, payloads)
      if (event !== undefined) payloads.push(event)
      return payloads[0]
    }
  }
}
