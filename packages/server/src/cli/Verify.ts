/**
 * `turnstep verify`: what a provider would refuse in a message history.
 *
 * Owns: what is printed, and the exit code. Does not own: the input (`HistoryInput`), the rules (`core/history`).
 *
 * - V1. It exits 3 when there is something to mend, for its own provider or for others; 0 when `repair` would change nothing.
 */
import { verify } from "@turnstep/core/history/Verify"
import * as Command from "effect/cli/Command"
import * as Effect from "effect/Effect"
import * as Stdio from "effect/Stdio"
import * as Stream from "effect/Stream"
import { CommandFailed } from "./Connection.ts"
import * as HistoryInput from "./HistoryInput.ts"
import * as HistoryReport from "./HistoryReport.ts"

export const command = Command.make(
  "verify",
  HistoryInput.flags,
  Effect.fn("verify")(function* ({ json, ...options }) {
    const stdio = yield* Stdio.Stdio
    const tally = { histories: 0, flawed: 0, isMany: false }
    const lines = HistoryInput.histories(options).pipe(
      Stream.map((history) => {
        const { document, format } = history
        const findings = verify(format, document.messages, history.context)
        tally.histories++
        tally.isMany ||= history.isLine
        if (HistoryReport.isFlawed(findings)) tally.flawed++
        if (json) return `${JSON.stringify({ format, findings })}\n`
        // Of many, those that are clean are counted at the end.
        return history.isLine && findings.length === 0 ? "" : `${HistoryReport.ofFindings(history, findings)}\n`
      }),
      Stream.filter((text) => text !== "")
    )
    const sum = Stream.suspend(() =>
      tally.isMany && !json ? Stream.make(`${HistoryReport.ofMany(tally.histories, tally.flawed)}\n`) : Stream.empty
    )
    yield* Stream.run(Stream.concat(lines, sum), stdio.stdout({ endOnDone: false }))
    if (tally.flawed > 0) return yield* new CommandFailed({ exitCode: 3 })
  }, HistoryInput.report)
).pipe(Command.withDescription("Say what a provider would refuse in a message history"))
