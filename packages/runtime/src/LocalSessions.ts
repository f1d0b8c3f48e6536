/**
 * Sessions whose Turns run in this process.
 *
 * Owns: the operations of `Session` on top of the journal, the drivers and the hub. Does not own: any of the three.
 *
 * - L1. A message is durable before its sender is answered; only then is the driver woken.
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
import * as Layer from "effect/Layer"
import type * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { Drivers } from "./Drivers.ts"
import { EventHub } from "./EventHub.ts"
import { Prepare } from "./Prepare.ts"
import { Senders } from "./Senders.ts"
import { type Input, type RunOptions, type Seen, type SendOptions, type Session, Sessions } from "./Session.ts"
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
    const senders = yield* Senders
    const prepare = yield* Prepare
    const random = yield* SecureRandom.SecureRandom

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
      const send = Effect.fn("Session.send")((input: Input, options: SendOptions = {}) =>
        admit(id, "input-accepted", { clientKey: options.clientKey }, Admission.send(requestOf(input, options)))
      )
      const watch = (after: number): Stream.Stream<Seen> => Watch.stream(journal, hub, id, after)
      const watcher = Watch.watcher(journal, hub, id)
      const cancel = Effect.fn("Session.cancel")(function* (
        turnId: string,
        by: "user" | "caller",
        reason: string | undefined
      ) {
        for (;;) {
          const { seq } = yield* summaryOf(id)
          const told = yield* admit(id, "turn-closing", { turnId }, Admission.cancel(id, turnId, by, reason))
          if (told.state !== "announced") return told
          yield* Watch.next(watcher, seq)
        }
      })
      const outcome = (turnId: Ids.TurnId, after: number) => Watch.outcome(watcher, after, turnId)
      return {
        id,
        send,
        steer: (input, options) => send(input, { ...options, delivery: "steer" }),
        followUp: (input, options) => send(input, { ...options, delivery: "follow-up" }),
        run: Effect.fn("Session.run")((input: Input, { clientKey }: RunOptions = {}) =>
          Effect.uninterruptibleMask((restore) =>
            Effect.gen(function* () {
              const request = requestOf(input, { delivery: "follow-up", clientKey })
              const admitted = yield* recorded(id, "input-accepted", { clientKey }, Admission.send(request))
              const { itemId } = admitted.value
              const seq = admitted.events.at(-1)?.seq ?? 0
              const started = Watch.startOf(watcher, seq, itemId)
              const abandon = admit(id, "input-returned", { itemId }, Admission.withdraw(itemId)).pipe(
                Effect.catchTag("ItemSettled", () =>
                  Effect.flatMap(started, (turnId) =>
                    Effect.andThen(
                      cancel(turnId, "caller", undefined),
                      // The cancel is durable; its end is waited for only as long as somebody here may bring it.
                      Effect.timeoutOption(Effect.interruptible(outcome(turnId, seq)), settleGrace)
                    )
                  )
                ),
                Effect.ignore
              )
              return yield* Effect.onInterrupt(restore(Watch.outcomeOfItem(watcher, seq, itemId)), () => abandon)
            })
          )
        ),
        outcome: Effect.fn("Session.outcome")(function* (turnId) {
          yield* summaryOf(id)
          return yield* outcome(turnId, 0)
        }),
        cancel: (turnId, reason) => cancel(turnId, "user", reason),
        move: Effect.fn("Session.move")((itemId: string, delivery: "steer" | "follow-up") =>
          admit(id, "input-moved", { itemId }, Admission.move(itemId, delivery))
        ),
        withdraw: Effect.fn("Session.withdraw")((itemId: string) =>
          admit(id, "input-returned", { itemId }, Admission.withdraw(itemId))
        ),
        events: (page) => journal.read(id, page),
        watch,
        summary: summaryOf(id),
        importHistory: (history) => SessionHistory.bringIn(journal, claims, hub, id, history),
        exportHistory: Effect.fn("Session.exportHistory")((format: FormatName) =>
          Effect.map(Effect.andThen(summaryOf(id), journal.read(id, { after: 0 })), (events) =>
            SessionHistory.takeOut(id, events, format)
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
        const { history, title, metadata } = options
        yield* journal.create(id, {
          agent,
          ...(title === undefined ? {} : { title }),
          ...(metadata === undefined ? {} : { metadata }),
          ...(history === undefined ? {} : { history })
        })
        return session(id)
      }),
      get: (id) => Effect.map(summaryOf(id), (summary) => session(summary.sessionId)),
      list: ({ before, limit }) => journal.list({ before, limit })
    })
  })
)

/** How long the caller of an abandoned run waits for its Turn to be settled. */
const settleGrace = Duration.seconds(5)

const decodeId = Schema.decodeUnknownEffect(Ids.SessionId)

const requestOf = (input: Input, options: SendOptions) => ({
  parts: typeof input === "string" ? Transcript.userText(input) : input,
  delivery: options.delivery ?? "auto",
  ifNotApplied: options.ifNotApplied ?? "follow-up",
  expectedTurnId: options.expectedTurnId,
  clientKey: options.clientKey
})
