/**
 * One call on the OpenAI Chat wire: from the request's body to parts and an ending.
 *
 * Owns: how the exchange, the framing and the decoder play together. Does not
 * own: encoding (`ChatRequest`), or who waits for the parts.
 *
 * - K1. Exactly one ending is told, after the last parts, unless the call is stopped first.
 * - K2. The ending of a whole response is told when its connection is free again, so
 *   that the next request finds it; a server that keeps it open after `[DONE]` is
 *   not waited for.
 * - K3. A refusal of an optional field is no ending: the request is sent again without it.
 * - K4. What no decoder can read, such as JSON nested without end, ends the call and not the process.
 */
import * as AiError from "effect/ai/AiError"
import * as AnswerSize from "../AnswerSize.ts"
import * as ProviderRefusal from "../ProviderRefusal.ts"
import type { ChatPart } from "./ChatPart.ts"
import * as ChatDecoder from "./ChatDecoder.ts"
import type * as Concessions from "./Concessions.ts"
import type * as Exchange from "./Exchange.ts"
import * as SseDecoder from "./SseDecoder.ts"

type Parts = ReadonlyArray<ChatPart>

/** How a call ended: with a whole response, or with the reason why there is none. */
export interface Ending {
  readonly error: AiError.AiErrorReason | undefined
}

/** What a call needs to know of its model. */
export interface Connection {
  readonly post: Exchange.Exchange
  /** The endpoint, as errors name it. */
  readonly url: string
  /** Removes the API key from a text. */
  readonly scrub: (text: string) => string
  readonly hasKey: boolean
  readonly source: ChatDecoder.Source
  readonly concessions: Concessions.Concessions
}

/**
 * Sends a body; `tell` hears of the parts and of the ending. Gives what stops the call at once. `encode` makes the body, anew
 * when the server refuses a part of it (K3).
 */
export const start = (
  connection: Connection,
  encode: () => string,
  now: () => number,
  tell: (parts: Parts, ending?: Ending) => void
): (() => void) => {
  const frames = SseDecoder.make()
  const chunks = ChatDecoder.make(connection.source)
  let last: Parts = [] // parts of a whole response that wait for its ending
  let state: "reading" | "whole" | "over" = "reading"
  let isWhole = false

  const end = (parts: Parts, error: AiError.AiErrorReason | undefined): void => {
    if (state === "over") return // K1
    state = "over"
    tell(parts, { error })
  }

  const settle = (): void => end(last, undefined)

  /** Takes payloads; with `isLast` the response has nothing more to say. K4. */
  const take = (payloads: ReadonlyArray<string>, isLast: boolean): void => {
    try {
      decode(payloads, isLast)
    } catch (cause) {
      const description = `the response cannot be read: ${connection.scrub(String(cause)).slice(0, 200)}`
      end([], new AiError.InvalidResponseError({ description }))
    }
  }

  const decode = (payloads: ReadonlyArray<string>, isLast: boolean): void => {
    const parts: Array<ChatPart> = []
    let fault: ChatDecoder.Fault | undefined
    for (const payload of payloads) {
      fault = chunks.push(payload, parts)
      if (fault !== undefined) break
    }
    if (isLast && fault?._tag === "Garbled") fault = undefined // a piece of a chunk: `end` knows whether it is missed
    const isOver = isLast || chunks.isDone()
    if (fault === undefined && isOver) fault = chunks.end(parts)
    if (fault !== undefined) return end(parts, reasonFor(fault, connection, now))
    if (!isOver) return parts.length > 0 ? tell(parts) : undefined
    last = parts
    isWhole = true
    state = "whole"
    if (!isLast) setImmediate(settle) // K2
  }

  let body = encode()
  const listener: Exchange.Listener = {
    onText: (text) => {
      if (state !== "reading") return
      take(frames.push(text), false)
      if (state === "reading" && frames.isTooLong()) {
        end([], AnswerSize.tooLarge(`a line of the response is longer than ${AnswerSize.mostHeld} characters`))
      }
    },
    onEnd: () => {
      if (state === "reading") {
        const payload = frames.end()
        take(payload === undefined ? [] : [payload], true)
      }
      if (state === "whole") queueMicrotask(settle) // K2: node frees the socket before its microtasks
    },
    onRefused: (refusal) => {
      if (connection.concessions.learn(refusal, body)) {
        body = encode()
        running = connection.post(body, listener) // K3
        return
      }
      end([], ProviderRefusal.toReason(refusal, { now: now(), scrub: connection.scrub, hasKey: connection.hasKey }))
    },
    onFailure: (description) =>
      state === "whole" ? settle() : end([], networkError(connection, "TransportError", description))
  }
  let running = connection.post(body, listener)
  return () => {
    state = "over"
    return isWhole ? running.release() : running.cancel()
  }
}

/** A failure of the connection or of the request itself. */
export const networkError = (
  connection: Pick<Connection, "url" | "scrub">,
  reason: AiError.NetworkError["reason"],
  description: string
): AiError.NetworkError =>
  new AiError.NetworkError({
    reason,
    method: "POST",
    url: connection.url,
    description: connection.scrub(description)
  })

const reasonFor = (fault: ChatDecoder.Fault, connection: Connection, now: () => number): AiError.AiErrorReason => {
  switch (fault._tag) {
    case "CutShort":
      return networkError(connection, "TransportError", "the response ended without a finish reason")
    case "Garbled": {
      const description = `not JSON: ${connection.scrub(fault.payload).slice(0, 200)}`
      return new AiError.InternalProviderError({ description })
    }
    case "TooLarge":
      return AnswerSize.tooLarge("the response has more calls, arguments or opaque members than are held")
    case "Reported":
      return ProviderRefusal.toReason(
        { status: undefined, headers: {}, body: fault.error },
        { now: now(), scrub: connection.scrub, hasKey: connection.hasKey }
      )
  }
}
