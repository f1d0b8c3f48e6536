/**
 * `turnstep repair`: a message history that its provider takes.
 *
 * Owns: what is printed, and the exit code. Does not own: the input (`HistoryInput`), the rules (`core/history`).
 *
 * - R1. The repaired document goes to stdout in the form of the input, what was done to it to stderr.
 * - R2. A history that needs no change comes out as it came in, to the last character.
 * - R3. It exits 3 when something remains that needs a decision, 0 otherwise.
 */
import { repair } from "@turnstep/core/history/Repair"
import * as Command from "effect/cli/Command"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Stdio from "effect/Stdio"
import * as Stream from "effect/Stream"
import { CommandFailed } from "./Connection.ts"
import * as HistoryDocument from "./HistoryDocument.ts"
import * as HistoryInput from "./HistoryInput.ts"
import * as HistoryReport from "./HistoryReport.ts"

export const command = Command.make(
  "repair",
  HistoryInput.flags,
  Effect.fn("repair")(function* ({ json, ...options }) {
    const stdio = yield* Stdio.Stdio
    const tally = { histories: 0, unfinished: 0, isMany: false }
    const texts = HistoryInput.histories(options).pipe(
      Stream.mapEffect(
        Effect.fnUntraced(function* (history) {
          const { document, format } = history
          const repaired = repair(format, document.messages, history.context)
          const { changes, messages, remaining } = repaired
          tally.histories++
          tally.isMany ||= history.isLine
          if (remaining.length > 0) tally.unfinished++
          if (json) return `${JSON.stringify({ format, messages, changes, remaining })}\n`
          const isWorthALine = !history.isLine || changes.length > 0 || remaining.length > 0
          if (isWorthALine) yield* Console.error(HistoryReport.ofRepair(history, repaired))
          const text = changes.length === 0 ? document.text : HistoryDocument.write(document, messages)
          return history.isLine ? `${text}\n` : text
        })
      )
    )
    yield* Stream.run(texts, stdio.stdout({ endOnDone: false }))
    if (tally.isMany && !json) yield* Console.error(HistoryReport.ofMany(tally.histories, tally.unfinished))
    if (tally.unfinished > 0) return yield* new CommandFailed({ exitCode: 3 })
  }, HistoryInput.report)
).pipe(Command.withDescription("Mend a message history so that its provider takes it"))
