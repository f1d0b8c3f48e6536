/**
 * A session's events as lines on a terminal.
 *
 * Owns: what is shown of an event, and in which words. Does not own: where it is written (`Chat`).
 *
 * - T1. A pure function of the events: the same events give the same text.
 * - T2. Text of the model and of tools is stripped of control characters, so that it cannot drive the terminal.
 */
import * as TurnEvent from "@turnstep/core/TurnEvent"
import type { StreamEvent } from "../api/EventEnvelope.ts"

/** What is on the screen: whether the line is open, and how much of the current answer has been shown. */
export interface Screen {
  isLineOpen: boolean
  shown: number
  /** Names of the calls that have been announced. */
  readonly calls: Map<string, string>
}

export const make = (): Screen => ({ isLineOpen: false, shown: 0, calls: new Map() })

/** The text to write for an event; empty for events that are not shown. */
export const render = (screen: Screen, event: StreamEvent): string => {
  switch (event.type) {
    case "step.started":
    case "step.reset":
      screen.shown = 0
      return event.type === "step.reset" ? line(screen, `(the answer starts again: ${event.data.reason})`) : ""
    case "model.retrying": {
      const { attempt, attempts, reason, waitMs } = event.data
      const wait = Math.ceil(waitMs / 1000)
      return line(screen, `(the model failed: ${clean(reason.message)} Attempt ${attempt} of ${attempts} in ${wait} s)`)
    }
    case "delta":
      if (event.data.channel !== "text") return ""
      return speak(screen, event.data.delta.slice(Math.max(0, screen.shown - event.data.offset)))
    case "stream.snapshot":
      return speak(screen, event.data.text.slice(screen.shown))
    case "message.added": {
      if (event.data.role !== "assistant") return ""
      const text = event.data.parts.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("")
      return speak(screen, text.slice(screen.shown)) + close(screen)
    }
    case "call.requested":
      screen.calls.set(event.data.callId, event.data.name)
      return line(screen, `· ${event.data.name} ${brief(event.data.params)}`)
    case "call.completed": {
      const verdict = event.data.isFailure ? `failed: ${brief(event.data.output)}` : `done in ${event.data.ms} ms`
      return line(screen, `· ${screen.calls.get(event.data.callId) ?? event.data.callId} ${verdict}`)
    }
    case "spill.created": {
      const { bytes, callId, lines, spillId } = event.data
      const name = screen.calls.get(callId) ?? callId
      return line(screen, `· ${name} gave ${bytes} bytes in ${lines} lines, kept as spill ${spillId.slice(0, 12)}…`)
    }
    case "call.receipt":
      return line(screen, `· ${screen.calls.get(event.data.callId) ?? event.data.callId} ${event.data.outcome}`)
    case "inbox.applied":
      return event.data.step > 1 ? line(screen, `↳ ${event.data.itemId} read at step ${event.data.step}`) : ""
    case "inbox.returned":
      if (event.data.reason === "withdrawn") return line(screen, `↳ ${event.data.itemId} was taken back unread`)
      return line(
        screen,
        event.data.disposition === "follow-up"
          ? `↳ ${event.data.itemId} came too late for this turn and starts one of its own`
          : `↳ ${event.data.itemId} came too late for this turn and was not read; send it again if it still matters`
      )
    case "turn.completed":
      return cut.has(event.data.finishReason)
        ? line(screen, `(the answer was cut off: ${event.data.finishReason})`)
        : ""
    case "turn.exhausted":
      return line(screen, `(the ${event.data.limit} of this turn are spent after ${event.data.steps} steps)`)
    case "guard.repeated":
      return event.data.verdict === "noted"
        ? line(screen, `(the same calls came ${event.data.count} times with the same results; the model is told)`)
        : ""
    case "turn.tripped":
      return line(screen, `(stopped: ${clean(event.data.reason)} [${event.data.code}])`)
    case "turn.cancelled":
      return line(screen, `(cancelled${event.data.reason === undefined ? "" : `: ${clean(event.data.reason)}`})`)
    case "turn.failed":
      return line(screen, `(the turn failed: ${clean(event.data.error.message)} [${event.data.error.code}])`)
    default:
      return ""
  }
}

/** Finish reasons of an answer that may miss its end. */
const cut: ReadonlySet<string> = new Set(["length", "content-filter", "pause"])

/** Whether a Turn is over with this event. */
export const endsTurn = (event: StreamEvent): boolean => "seq" in event && TurnEvent.isTerminal(event)

const speak = (screen: Screen, text: string): string => {
  if (text === "") return ""
  screen.shown += text.length
  screen.isLineOpen = !text.endsWith("\n")
  return clean(text)
}

const close = (screen: Screen): string => {
  const end = screen.isLineOpen ? "\n" : ""
  screen.isLineOpen = false
  return end
}

const line = (screen: Screen, text: string): string => `${close(screen)}${text}\n`

/** A value on one line, at most 100 characters long (T2). */
export const brief = (value: unknown): string => {
  const text = clean(typeof value === "string" ? value : JSON.stringify(value)).replaceAll(/\s+/g, " ")
  return text.length > 100 ? `${text.slice(0, 99).toWellFormed()}…` : text
}

/** T2: everything below space except line feed and tab, DEL, the C1 controls, and the marks that reorder text. */
export const clean = (text: string): string =>
  // oxlint-disable-next-line no-control-regex -- control characters are what is looked for
  text.replaceAll(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g, "\ufffd")
