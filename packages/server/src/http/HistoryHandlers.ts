/**
 * Checking and mending message histories of other systems. Nothing is kept.
 */
import { detect } from "@turnstep/core/history/Detect"
import { repair } from "@turnstep/core/history/Repair"
import { verify } from "@turnstep/core/history/Verify"
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import { Api } from "../api/Api.ts"
import * as HistoryBody from "../api/HistoryBody.ts"
import * as Problem from "./Problem.ts"

type CheckHistory = typeof HistoryBody.CheckHistory.Type

export const layer = HttpApiBuilder.group(Api, "history", (handlers) =>
  Effect.succeed(
    handlers.handleAll({
      verify: Effect.fn("HistoryHandlers.verify")(function* ({ payload }) {
        const format = yield* formatOf(payload)
        const findings = verify(format, payload.messages, payload.context)
        const omitted = findings.length - HistoryBody.mostFindings
        if (omitted <= 0) return { format, findings }
        return { format, findings: findings.slice(0, HistoryBody.mostFindings), omitted }
      }),
      repair: Effect.fn("HistoryHandlers.repair")(function* ({ payload }) {
        const format = yield* formatOf(payload)
        return { format, ...repair(format, payload.messages, payload.context) }
      })
    })
  )
)

/** The format that was named, or the only one in which the messages can be written. */
const formatOf = Effect.fnUntraced(function* ({ format, messages }: CheckHistory) {
  if (format !== undefined) return format
  const found = detect(messages)
  if (found._tag === "Detected") return found.format
  const detail = `The messages could be written in several formats; name one of ${found.candidates.join(", ")}.`
  return yield* Problem.refuse("invalid-request", detail, [{ pointer: "/body/format", detail }])
})
