/**
 * `turnstep sessions ls|show`: what is on record, as tables or JSON.
 *
 * Owns: the tables. Does not own: the record (`api/`), or what may reach a terminal (`Transcript`).
 */
import { MessageView, TurnView } from "@turnstep/core/SessionView"
import * as Console from "effect/Console"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as Schema from "effect/Schema"
import { pageLimit, Session, SessionSummary } from "../api/Body.ts"
import * as Connection from "./Connection.ts"
import { brief, clean } from "./Transcript.ts"

const json = Flag.Boolean("json").pipe(Flag.withDescription("print JSON instead of a table"), Flag.withDefault(false))

const ls = Command.make(
  "ls",
  {
    ...Connection.flags,
    json,
    limit: Flag.Int("limit").pipe(
      Flag.withDescription(`how many at the most, 1 to ${pageLimit.most}; default 50`),
      Flag.withDefault(50)
    )
  },
  Effect.fn("sessions.ls")(
    function* (options) {
      const { client, baseUrl } = yield* Connection.open(options)
      const page = yield* Effect.mapError(client.sessions.list({ query: { limit: options.limit } }), (error) =>
        Connection.explain(baseUrl, error)
      )
      if (options.json) return yield* print(Schema.Array(SessionSummary), page.data)
      if (page.data.length === 0) return yield* Console.log("No sessions yet. Start one with `turnstep chat`.")
      yield* Console.log(table(page.data))
    },
    Connection.report,
    Effect.provide(FetchHttpClient.layer)
  )
).pipe(Command.withDescription("List sessions, newest first"))

/** The tokens of a Turn, and what they cost where that is known. */
const spent = ({ cost, usage }: Pick<TurnView, "cost" | "usage">): string => {
  const part = (count: number | undefined, what: string) => (count === undefined ? [] : [`${count} ${what}`])
  const of = (parts: ReadonlyArray<string>) => (parts.length === 0 ? "" : ` (${parts.join(", ")})`)
  const cache = [...part(usage.cachedInputTokens, "from cache"), ...part(usage.cacheWriteTokens, "to cache")]
  const input = `${usage.inputTokens} tokens in${of(cache)}`
  const output = `${usage.outputTokens} out${of(part(usage.reasoningTokens, "reasoning"))}`
  return [input, output, ...(cost === undefined ? [] : [`cost ${Number(cost.toPrecision(4))}`])].join(", ")
}

const show = Command.make(
  "show",
  {
    ...Connection.flags,
    json,
    session: Argument.String("session").pipe(Argument.withDescription("id of the session"))
  },
  Effect.fn("sessions.show")(
    function* (options) {
      const { client, baseUrl } = yield* Connection.open(options)
      const params = { session: options.session }
      const [session, messages, turns] = yield* Effect.all([
        client.sessions.get({ params }),
        every((after) => client.record.messages({ params, query: { limit: 1000, ...after } })),
        every((after) => client.turns.list({ params, query: { limit: 1000, ...after } }))
      ]).pipe(Effect.mapError((error) => Connection.explain(baseUrl, error)))
      if (options.json) return yield* print(Shown, { session, turns, messages })
      yield* Console.log(table([session]))
      for (const turn of turns) {
        const { error, id, state } = turn
        const why = error === undefined ? "" : `: ${error.message} [${error.code}]`
        yield* Console.log(clean(`${id}  ${state}${why}  (${spent(turn)})`))
      }
      for (const message of messages) {
        const text = message.parts.map((part) =>
          part.type === "text" || part.type === "reasoning"
            ? part.text
            : part.type === "tool-call"
              ? `[calls ${part.name} ${JSON.stringify(part.params)}]`
              : `[${part.mediaType}]`
        )
        const answers = (message.answers ?? []).map(
          ({ name, result }) => `[${name} gave ${typeof result === "string" ? result : JSON.stringify(result)}]`
        )
        yield* Console.log(
          clean(`\n${message.role}: ${[...text, ...answers].filter((line) => line !== "").join("\n")}`)
        )
      }
    },
    Connection.report,
    Effect.provide(FetchHttpClient.layer)
  )
).pipe(Command.withDescription("Show a session: its turns and its messages"))

export const command = Command.make("sessions").pipe(
  Command.withDescription("Look at sessions on record"),
  Command.withSubcommands([ls, show])
)

/** What `show --json` prints. */
const Shown = Schema.Struct({
  session: Session,
  turns: Schema.Array(TurnView),
  messages: Schema.Array(MessageView)
})

/** Prints a value as the API sends it. */
const print = <A, I>(schema: Schema.Codec<A, I>, value: A) =>
  Effect.flatMap(Effect.orDie(Schema.encodeEffect(schema)(value)), (json) =>
    Console.log(JSON.stringify(json, undefined, 2))
  )

/** All of a list that comes in pages. */
const every = <A, E>(
  page: (after: {
    readonly after?: string
  }) => Effect.Effect<{ readonly data: ReadonlyArray<A>; readonly next: string | null }, E>
) =>
  Effect.gen(function* () {
    const first = yield* page({})
    const all = [...first.data]
    for (let next = first.next; next !== null;) {
      const found = yield* page({ after: next })
      all.push(...found.data)
      next = found.next
    }
    return all
  })

const table = (sessions: ReadonlyArray<SessionSummary>): string => {
  const rows = [
    ["ID", "STATUS", "TURNS", "EVENTS", "UPDATED", "TITLE"],
    ...sessions.map(({ id, status, turns, headSeq, updatedAt, title }) => [
      id,
      status,
      String(turns),
      String(headSeq),
      DateTime.formatIso(DateTime.makeUnsafe(updatedAt)),
      brief(title ?? "")
    ])
  ]
  const widths = rows[0]?.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0))) ?? []
  return rows
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join("  ")
        .trimEnd()
    )
    .join("\n")
}
