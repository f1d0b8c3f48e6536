/**
 * Checking and mending message histories of other systems. Nothing is kept.
 */
import type { FormatName } from "@turnstep/core/history/Contract"
import * as HistoryWork from "@turnstep/runtime/HistoryWork"
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import { Api } from "../api/Api.ts"
import * as HistoryBody from "../api/HistoryBody.ts"
import * as Problem from "./Problem.ts"

type CheckHistory = typeof HistoryBody.CheckHistory.Type

export const layer = HttpApiBuilder.group(Api, "history", (handlers) =>
  Effect.succeed(
    handlers.handleAll({
      verify: Effect.fn("HistoryHandlers.verify")(function* ({ payload }) {
        const found = yield* Problem.refusing(HistoryWork.verify(checkOf(payload), HistoryBody.mostFindings))
        if ("candidates" in found) return yield* unclear(found.candidates)
        const { omitted, ...verified } = found
        return omitted === 0 ? verified : found
      }),
      repair: Effect.fn("HistoryHandlers.repair")(function* ({ payload }) {
        const repaired = yield* Problem.refusing(HistoryWork.repair(checkOf(payload)))
        if ("candidates" in repaired) return yield* unclear(repaired.candidates)
        // Written where it was made: encoding it here would hold up the server.
        return HttpServerResponse.text(repaired.json, { contentType: "application/json" })
      })
    })
  )
)

const checkOf = ({ context, format, messages }: CheckHistory): HistoryWork.Check => ({ context, format, messages })

const unclear = (candidates: ReadonlyArray<FormatName>) => {
  const detail = `The messages could be written in several formats; name one of ${candidates.join(", ")}.`
  return Problem.refuse("invalid-request", detail, [{ pointer: "/body/format", detail }])
}
