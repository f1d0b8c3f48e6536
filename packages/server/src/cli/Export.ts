/**
 * `turnstep export`: the messages of a session in a format.
 *
 * Owns: what is printed. Does not own: the messages (`core/history/Export`).
 *
 * - E1. The messages go to stdout as a JSON array, what the format cannot carry to stderr; `--json` prints both as one object.
 */
import { FormatName } from "@turnstep/core/history/Contract"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as Connection from "./Connection.ts"
import * as HistoryReport from "./HistoryReport.ts"

export const command = Command.make(
  "export",
  {
    ...Connection.flags,
    format: Flag.Literals("format", FormatName.literals).pipe(
      Flag.withDescription("how the messages are written; default openai-chat"),
      Flag.withDefault("openai-chat" as const)
    ),
    json: Flag.Boolean("json").pipe(
      Flag.withDescription("print JSON: the messages, and what the format cannot carry"),
      Flag.withDefault(false)
    ),
    session: Argument.String("session").pipe(Argument.withDescription("id of the session"))
  },
  Effect.fn("export")(
    function* (options) {
      const { client, baseUrl } = yield* Connection.open(options)
      const exported = yield* Effect.mapError(
        client.record.export({ params: { session: options.session }, query: { format: options.format } }),
        (error) => Connection.explain(baseUrl, error)
      )
      if (options.json) return yield* Console.log(JSON.stringify(exported))
      const told = HistoryReport.ofExport(options.session, exported)
      if (told !== undefined) yield* Console.error(told)
      yield* Console.log(JSON.stringify(exported.messages, undefined, 2))
    },
    Connection.report,
    Effect.provide(FetchHttpClient.layer)
  )
).pipe(Command.withDescription("Write a session's messages in a format"))
