/**
 * Sessions whose Turns run in this process.
 *
 * Owns: the operations of `Session` on top of the journal, the drivers and the hub. Does not own: any of the three.
 *
 * - L1. A message is durable before its sender is answered; only then is the driver woken.
 * - L2. A runtime that closes cancels nothing: whoever waited in `run` is interrupted with it, and the Turn goes on elsewhere.
 */
import * as Admission from "@turnstep/core/Admission"
import { Claim } from "@turnstep/core/Claim"
import * as CrashPoint from "@turnstep/core/CrashPoint"
import * as Ids from "@turnstep/core/Ids"
import { Journal, type Lookup, type View } from "@turnstep/core/Journal"
import type { FormatName } from "@turnstep/core/history/Contract"
import type * as JournalPort from "@turnstep/core/Journal"
import { SessionIdInvalid, SessionNotFound } from "@turnstep/core/TurnError"
import * as Transcript from "@turnstep/core/Transcript"
import * as SecureRandom from "effect/crypto/SecureRandom"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { Drivers } from "./Drivers.ts"
import { EventHub } from "./EventHub.ts"
import { FrontDoor } from "./FrontDoor.ts"
import * as HistoryWork from "./HistoryWork.ts"
import * as PageReads from "./PageReads.ts"
import { Prepare } from "./Prepare.ts"
import { Senders } from "./Senders.ts"
import { type Input, type RunOptions, type SendOptions, type Session, Sessions } from "./Session.ts"
import * as SessionHistory from "./SessionHistory.ts"
import { StorageHealth } from "./StorageHealth.ts"
import * as Watch from "./Watch.ts"

export const layer = Layer.effect(
  Sessions,
  Effect.gen(function* () {
    const journal = yield* Journal
    const claims = yield* Claim
    const drivers = yield* Drivers
    const hub = yield* EventHub
    const reads = PageReads.make(journal)
    const senders = yield* Senders
    const prepare = yield* Prepare
    const door = yield* FrontDoor
    const random = yield* SecureRandom.SecureRandom
    const scope = yield* Effect.scope
    let isClosing = false
    // Built last, and so the first to hear that the runtime closes.
    yield* Effect.addFinalizer(() => Effect.sync(() => void (isClosing = true)))

    /** Records a decision, tells this process' listeners, and wakes the driver (L1). */
    const recorded = <A, E>(
      sessionId: Ids.SessionId,
      boundary: CrashPoint.Boundary,
      lookup: Lookup,
      decide: (view: View) => Result.Result<JournalPort.Decided<A>, E>
    ) =>
      Effect.suspend(() => {
        let agent = ""
        const noted = (view: View) => {
          agent = view.agent
          return decide(view)
        }
        return CrashPoint.hit(boundary, "before-commit").pipe(
          Effect.andThen(journal.admit(sessionId, lookup, noted)),
          Effect.tap(({ events }) => CrashPoint.hitAll(events, "after-commit")),
          Effect.tap(({ events }) => senders.sent(sessionId, events)),
          Effect.tap(({ events }) => {
            hub.publish(sessionId, events)
            return events.length === 0 ? Effect.void : drivers.wake(sessionId, agent)
          }),
          Effect.tap(({ events }) => CrashPoint.hitAll(events, "after-ack"))
        )
      }).pipe(Effect.uninterruptible)

    const admit = <A, E>(...decision: Parameters<typeof recorded<A, E>>) =>
      Effect.map(recorded(...decision), ({ value }) => value)

    const session = (id: Ids.SessionId): Session => {
      const ask = <A, E>(work: Effect.Effect<A, E>, patience?: Duration.Duration) =>
        door.ask(work, { sessionId: id, patience })
      const send = Effect.fn("Session.send")((input: Input, options: SendOptions = {}) =>
        ask(admit(id, "input-accepted", { clientKey: options.clientKey }, Admission.send(requestOf(input, options))))
      )
      const watcher = Watch.watcher(journal, hub, id)
      const cancel = (turnId: string, by: "user" | "caller", reason: string | undefined) =>
        admit(id, "turn-closing", { turnId }, Admission.cancel(id, turnId, by, reason))
      const outcome = Effect.fnUntraced(function* (turnId: string) {
        for (;;) {
          const { value: found } = yield* journal.admit(id, { turnId }, Admission.find(turnId))
          if (found.isStarted) return yield* Watch.outcome(watcher, 0, found.turnId)
          const told = yield* Watch.outcomeOfNext(watcher, found.seq, found.turnId)
          if (Option.isSome(told)) return told.value
        }
      })
      const run = (input: Input, { clientKey, onInterrupt = "leave" }: RunOptions) =>
        Effect.uninterruptibleMask((restore) =>
          Effect.gen(function* () {
            const request = requestOf(input, { delivery: "follow-up", clientKey })
            const admitted = yield* recorded(id, "input-accepted", { clientKey }, Admission.send(request))
            const { itemId } = admitted.value
            const seq = admitted.events.at(-1)?.seq ?? 0
            const waited = restore(Watch.outcomeOfItem(watcher, seq, itemId))
            if (onInterrupt === "leave") return yield* waited
            const abandon = admit(id, "input-returned", { itemId }, Admission.withdraw(itemId)).pipe(
              Effect.catchTag("ItemSettled", () =>
                Effect.flatMap(Watch.startOf(watcher, seq, itemId), (turnId) =>
                  Effect.andThen(cancel(turnId, "caller", undefined), Watch.outcome(watcher, seq, turnId))
                )
              ),
              Effect.ignore
            )
            // L2. In a fiber of its own, which nobody has interrupted yet.
            const left = Effect.suspend(() =>
              isClosing ? Effect.void : Effect.flatMap(Effect.forkIn(abandon, scope), Fiber.await)
            )
            return yield* Effect.onInterrupt(waited, () => left)
          })
        )
      return {
        id,
        send,
        steer: (input, options) => send(input, { ...options, delivery: "steer" }),
        followUp: (input, options) => send(input, { ...options, delivery: "follow-up" }),
        run: Effect.fn("Session.run")((input: Input, options: RunOptions = {}) =>
          ask(run(input, options), options.onInterrupt === "cancel" ? settleGrace : undefined)
        ),
        outcome: Effect.fn("Session.outcome")((turnId: string) => ask(outcome(turnId))),
        cancel: Effect.fn("Session.cancel")((turnId: string, reason?: string) => ask(cancel(turnId, "user", reason))),
        move: Effect.fn("Session.move")((itemId: string, delivery: "steer" | "follow-up") =>
          ask(admit(id, "input-moved", { itemId }, Admission.move(itemId, delivery)))
        ),
        withdraw: Effect.fn("Session.withdraw")((itemId: string) =>
          ask(admit(id, "input-returned", { itemId }, Admission.withdraw(itemId)))
        ),
        events: (page) => ask(journal.read(id, page)),
        watch: (after) => door.stream(Watch.stream(reads, hub, id, after), { sessionId: id }),
        summary: ask(summaryOf(id)),
        importHistory: (history) => ask(SessionHistory.bringIn(journal, claims, hub, id, history)),
        exportHistory: Effect.fn("Session.exportHistory")((format: FormatName) =>
          ask(
            Effect.flatMap(Effect.andThen(summaryOf(id), journal.read(id, { after: 0 })), (events) =>
              HistoryWork.write({ sessionId: id, events, format })
            )
          )
        )
      }
    }

    const summaryOf = (id: string) =>
      Effect.flatMap(journal.summary(id), (found) =>
        Effect.fromOption(found, () => new SessionNotFound({ sessionId: id }))
      )

    const { takesWrites } = yield* StorageHealth
    return Sessions.of({
      takesWrites,
      open: Effect.fn("Sessions.open")(function* (options = {}) {
        const agent = yield* prepare.agent(options.agent ?? prepare.agents[0] ?? "")
        const wanted = options.id ?? `ses_${yield* random.uuidV7()}`
        const id = yield* Effect.mapError(decodeId(wanted), () => new SessionIdInvalid({ id: wanted }))
        const { clientKey, history, title, metadata } = options
        const created = journal.create(id, {
          agent,
          ...(title === undefined ? {} : { title }),
          ...(metadata === undefined ? {} : { metadata }),
          ...(history === undefined ? {} : { history }),
          ...(clientKey === undefined ? {} : { clientKey })
        })
        yield* door.ask(created, { sessionId: id })
        return session(id)
      }),
      get: (id) => Effect.map(door.ask(summaryOf(id)), (summary) => session(summary.sessionId)),
      list: ({ before, limit }) => door.ask(journal.list({ before, limit }))
    })
  })
)

/** How long an interrupted caller of `run` waits for the Turn it cancels to be settled. */
const settleGrace = Duration.seconds(5)

const decodeId = Schema.decodeUnknownEffect(Ids.SessionId)

const requestOf = (input: Input, options: SendOptions) => ({
  parts: typeof input === "string" ? Transcript.userText(input) : input,
  delivery: options.delivery ?? "auto",
  ifNotApplied: options.ifNotApplied ?? "follow-up",
  expectedTurnId: options.expectedTurnId,
  clientKey: options.clientKey
})
