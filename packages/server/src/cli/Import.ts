/**
 * `turnstep import`: a session that goes on from a history of another system.
 *
 * Owns: what is printed, and the exit code. Does not own: the input (`HistoryInput`), what is made of it (`core/history`).
 *
 * - I1. The id of the new session goes to stdout, what was done to the history to stderr; `--json` prints both as one object.
 * - I2. A history makes one session: an input with several is refused.
 */
import type { FormatName } from "@turnstep/core/history/Contract"
import { detect } from "@turnstep/core/history/Detect"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { Session } from "../api/Body.ts"
import * as Connection from "./Connection.ts"
import * as HistoryDocument from "./HistoryDocument.ts"
import * as HistoryInput from "./HistoryInput.ts"
import * as HistoryReport from "./HistoryReport.ts"

const { context, file, format, json, profile } = HistoryInput.flags

const optional = (name: string, about: string) => Flag.String(name).pipe(Flag.withDescription(about), Flag.optional)

export const command = Command.make(
  "import",
  {
    ...Connection.flags,
    format,
    profile,
    context,
    json: json.pipe(Flag.withDescription("print JSON: the session and what was done to the history")),
    session: optional("session", "id the session gets; default a new one"),
    agent: optional("agent", "agent of the session; default the server's first"),
    title: optional("title", "title of the session"),
    file
  },
  Effect.fn("import")(
    function* (options) {
      const history = yield* only(options.file, HistoryInput.documents({ ...options, turn: Option.none() }))
      const { client, baseUrl } = yield* Connection.open(options)
      const named = Option.orElse(options.format, () => formatOf(history.document))
      const session = yield* Effect.mapError(
        client.sessions.create({
          headers: {},
          payload: {
            ...given("id", options.session),
            ...given("agent", options.agent),
            ...given("title", options.title),
            import: {
              // What was read from JSON is JSON.
              messages: history.document.messages as ReadonlyArray<Schema.Json>,
              context: history.context,
              ...given("format", named)
            }
          }
        }),
        (error) => Connection.explain(baseUrl, error)
      )
      if (!("imported" in session) || session.imported === undefined) return yield* Effect.die("no report")
      const { imported, ...summary } = session
      if (options.json) {
        const encoded = yield* Effect.orDie(encode(summary))
        return yield* Console.log(JSON.stringify({ session: encoded, report: imported }))
      }
      yield* Console.error(HistoryReport.ofImport(history.place, imported))
      yield* Console.log(session.id)
      yield* Console.error(`Go on with: turnstep chat --session ${session.id}`)
    },
    (effect) =>
      HistoryInput.report(Effect.catchTag(effect, "ServerUnusable", (error) => Connection.report(Effect.fail(error)))),
    Effect.provide(FetchHttpClient.layer)
  )
).pipe(Command.withDescription("Go on in a session from a message history"))

const encode = Schema.encodeEffect(Session)

/** The one history of the input (I2). */
const only = Effect.fnUntraced(function* <E, R>(
  file: string,
  documents: Stream.Stream<Omit<HistoryInput.History, "format">, E, R>
) {
  const [first, second] = yield* Stream.runCollect(Stream.take(documents, 2))
  if (first !== undefined && second === undefined) return first
  const problem =
    first === undefined ? "is empty." : "holds several histories. Import them one by one: each becomes a session."
  return yield* new HistoryInput.InputUnreadable({ place: HistoryInput.nameOf(file), problem })
})

/** Where the messages do not tell, the body around them may. */
const formatOf = (document: HistoryDocument.HistoryDocument): Option.Option<FormatName> => {
  const found = detect(document.messages)
  const hint = found._tag === "Ambiguous" ? HistoryDocument.formatOfBody(document) : undefined
  return found._tag === "Ambiguous" && hint !== undefined && found.candidates.includes(hint)
    ? Option.some(hint)
    : Option.none()
}

const given = <const Key extends string, A>(key: Key, value: Option.Option<A>) =>
  (Option.isSome(value) ? { [key]: value.value } : {}) as { readonly [K in Key]?: A }
