/**
 * `turnstep chat`: talk to a session from a terminal.
 *
 * Owns: what a line, Ctrl-C and the end of input do. Does not own: what is shown of an event (`Transcript`).
 *
 * - C1. A line while a Turn runs steers it; a line while none runs starts one.
 * - C2. Ctrl-C while a Turn runs cancels it, and a second one, or one while none runs, ends the chat.
 * - C3. Without a terminal the lines are sent one after the other, each when the Turn before has ended.
 * - C4. A lost connection is taken up again after the last event that was shown; a server that is away is told once.
 * - C5. Cancelling takes back what was typed for the Turn and not read yet: stop means stop.
 * - C6. At a terminal nothing that fails ends the chat: a line that could not be sent is there again, and sending it again is
 *   no second message. A pipe cannot be asked: there the command fails.
 */
import type { ItemId, SessionId, TurnId } from "@turnstep/core/Ids"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as SecureRandom from "effect/crypto/SecureRandom"
import * as Fiber from "effect/Fiber"
import * as Latch from "effect/Latch"
import * as Option from "effect/Option"
import * as Queue from "effect/Queue"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { StreamEvent } from "../api/EventEnvelope.ts"
import * as EventStream from "../api/EventStream.ts"
import * as Connection from "./Connection.ts"
import * as Keyboard from "./Keyboard.ts"
import * as Transcript from "./Transcript.ts"

/** How the last Turn ended, as an exit code: 0 answered, 3 failed or out of budget, 130 cancelled. */
type Verdict = 0 | 3 | 130

export const command = Command.make(
  "chat",
  {
    ...Connection.flags,
    session: Flag.String("session").pipe(
      Flag.withAlias("s"),
      Flag.withDescription("id of the session; it is created when there is none; default: a new session"),
      Flag.optional
    ),
    agent: Flag.String("agent").pipe(
      Flag.withDescription("agent of a new session; default: the server's"),
      Flag.optional
    ),
    json: Flag.Boolean("json").pipe(Flag.withDescription("print events as JSON lines"), Flag.withDefault(false)),
    text: Argument.String("text").pipe(
      Argument.withDescription("first message; further lines are read from standard input"),
      Argument.variadic()
    )
  },
  Effect.fn("chat")(
    function* (options) {
      const connection = yield* Connection.open(options)
      const keyboard = yield* Keyboard.open
      const session = yield* enter(connection, options)
      if (!options.json) yield* greet(connection, keyboard, session.id)
      const verdict = yield* talk(connection, keyboard, session, options.json, options.text.join(" "))
      if (verdict !== 0) return yield* new Connection.CommandFailed({ exitCode: verdict })
    },
    Effect.scoped,
    Effect.catchTag("ServerUnusable", (error) => Connection.report(Effect.fail(error))),
    Effect.provide([FetchHttpClient.layer, SecureRandom.layerWebCrypto])
  )
).pipe(
  Command.withDescription(
    "Talk to a session. Enter steers the running turn or starts one; Ctrl-C cancels it, and again leaves; /help is the model's to answer."
  )
)

/** Bytes of a message at the most: a request takes 1 MiB with what stands around the text. */
const mostBytes = 1024 * 1024 - 1024

/** As it came over the wire. */
const encode = Schema.encodeSync(StreamEvent)

type Open = Effect.Success<ReturnType<typeof Connection.open>>

interface Entered {
  readonly id: SessionId
  readonly headSeq: number
  readonly activeTurn: TurnId | undefined
}

/** The session of this id, or a new one. */
const enter = Effect.fnUntraced(function* (
  connection: Open,
  options: { readonly session: Option.Option<string>; readonly agent: Option.Option<string> }
) {
  const { client, baseUrl } = connection
  const create = client.sessions.create({
    headers: {},
    payload: {
      ...(Option.isSome(options.session) ? { id: options.session.value } : {}),
      ...(Option.isSome(options.agent) ? { agent: options.agent.value } : {})
    }
  })
  const found = Option.isNone(options.session)
    ? create
    : Effect.catchIf(
        client.sessions.get({ params: { session: options.session.value } }),
        (error) => "code" in error && error.code === "session-not-found",
        () => create
      )
  const session = yield* Effect.mapError(found, (error) => Connection.explain(baseUrl, error))
  return session as Entered
})

const greet = (connection: Open, keyboard: Keyboard.Keyboard, id: SessionId) =>
  Console.error(
    [
      `session ${id} · model ${connection.info.model.name}${connection.info.model.demo ? " (scripted, not an LLM)" : ""}`,
      ...(keyboard.isPerson ? ["Enter sends (and steers a running turn), Ctrl-C cancels the turn, Ctrl-D leaves."] : [])
    ].join("\n")
  )

/** Sends what is typed and shows what happens, until the input ends; the verdict on the last Turn. */
export const talk = Effect.fnUntraced(function* (
  connection: Open,
  keyboard: Keyboard.Keyboard,
  session: Entered,
  isJson: boolean,
  firstText: string
) {
  const { baseUrl, client } = connection
  const screen = Transcript.make()
  const notice = (text: string) => Effect.sync(() => keyboard.notice(text))
  const idle = yield* Latch.make(session.activeTurn === undefined)
  /** Steers of ours that wait to be read. */
  const steers = new Set<ItemId>()
  let running = session.activeTurn
  let last = session.headSeq
  let verdict: Verdict = 0

  const show = (event: StreamEvent) => {
    if ("seq" in event) last = event.seq
    if (event.type === "turn.started") running = event.data.turnId
    if (event.type === "inbox.applied" || event.type === "inbox.returned") steers.delete(event.data.itemId)
    keyboard.write(isJson ? `${JSON.stringify(encode(event))}\n` : Transcript.render(screen, event))
    if (!Transcript.endsTurn(event)) return
    running = undefined
    verdict = event.type === "turn.completed" ? 0 : event.type === "turn.cancelled" ? 130 : 3
  }
  const settle = (event: StreamEvent) => {
    if (event.type !== "session.status" || event.data.status !== "idle") return
    idle.openUnsafe()
    keyboard.prompt()
  }
  // C4
  let isAway = false
  const follow = Effect.suspend(() => connection.stream(`/api/sessions/${session.id}/events?after=${last}`)).pipe(
    Effect.tapError(() => {
      if (isAway) return Effect.void
      isAway = true
      return notice(`(${baseUrl} does not answer; trying again)`)
    }),
    Effect.tap(() => {
      if (!isAway) return Effect.void
      isAway = false
      return notice(`(${baseUrl} answers again)`)
    }),
    Effect.flatMap(({ stream }) =>
      Stream.runForEach(EventStream.decode(stream), (event) =>
        Effect.sync(() => {
          show(event)
          settle(event)
        })
      )
    ),
    Effect.ignore,
    Effect.repeat(Schedule.spaced("500 millis"))
  )

  const random = yield* SecureRandom.SecureRandom
  /** The text that could not be sent, with its key: sent again, it is the same message. */
  let unsent: { readonly text: string; readonly key: string } | undefined

  const send = (text: string, delivery: "auto" | "follow-up") =>
    Effect.gen(function* () {
      const size = Buffer.byteLength(text)
      if (size > mostBytes) {
        return yield* new Connection.ServerUnusable({
          problem: `A message has ${mostBytes} bytes at the most, and this one has ${size}.`,
          advice: "Put the text into a file of the workspace, or send it in parts."
        })
      }
      const key = unsent?.text === text ? unsent.key : yield* random.uuidV7()
      unsent = { text, key }
      idle.closeUnsafe()
      const admitted = yield* client.inbox
        .send({ params: { session: session.id }, headers: { "idempotency-key": key }, payload: { text, delivery } })
        .pipe(Effect.mapError((error) => Connection.explain(baseUrl, error)))
      unsent = undefined
      if (admitted.effect === "steering") steers.add(admitted.item.id)
      if (admitted.effect === "started" || isJson) return
      yield* notice(`↳ ${admitted.item.id} ${admitted.effect === "steering" ? `steers ${admitted.turnId}` : "waits"}`)
    })

  /** C6 */
  const sendTyped = (text: string) =>
    Effect.catch(send(text, "auto"), ({ message }) =>
      Effect.sync(() => {
        if (running === undefined) idle.openUnsafe()
        keyboard.notice(`(not sent: ${message} Enter tries again.)`)
        keyboard.restore(text)
      })
    )

  // C5
  const takeBack = Effect.suspend(() =>
    Effect.forEach(steers, (item) => Effect.ignore(client.inbox.withdraw({ params: { session: session.id, item } })), {
      discard: true
    })
  )

  const cancel = (turn: TurnId) =>
    Effect.andThen(takeBack, client.turns.cancel({ params: { session: session.id, turn }, payload: {} })).pipe(
      Effect.mapError((error) => Connection.explain(baseUrl, error))
    )

  const listen = Effect.gen(function* () {
    let isCancelling: TurnId | undefined
    for (;;) {
      const stroke = yield* Queue.take(keyboard.strokes)
      if (stroke._tag === "End") return yield* idle.await
      if (stroke._tag === "Interrupt") {
        if (running === undefined || isCancelling === running) return
        isCancelling = running
        const cancelled = yield* Effect.result(cancel(running))
        if (cancelled._tag === "Failure") {
          if (!keyboard.isPerson) return yield* cancelled.failure
          isCancelling = undefined
          yield* notice(`(not cancelled: ${cancelled.failure.message})`) // C6
        }
        continue
      }
      if (stroke.text.trim() === "") keyboard.prompt()
      else if (keyboard.isPerson) yield* sendTyped(stroke.text)
      else yield* Effect.andThen(idle.await, send(stroke.text, "follow-up")) // C3
    }
  })

  const following = yield* Effect.forkChild(follow)
  if (firstText.trim() !== "") yield* keyboard.isPerson ? sendTyped(firstText) : send(firstText, "auto")
  else keyboard.prompt()
  yield* Effect.onInterrupt(listen, () => (running === undefined ? Effect.void : Effect.ignore(cancel(running))))
  yield* Fiber.interrupt(following)
  return verdict as Verdict
})
