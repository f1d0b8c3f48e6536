/**
 * Histories on their way into a session.
 *
 * Owns: when a history may come in, and the write it comes in with. Does not own: reading it and writing one
 * (`HistoryWork`), or the messages of the session (`SessionState`).
 *
 * - H1. A history comes before everything else: into a session that has none of its own, once, as one write.
 * - H2. The write is fenced, like those of an owner, and expects the session as it was created: of two imports, or of an import
 *   and a message, one is first and the import is refused otherwise.
 * - H3. The same history again is no second one: who did not hear the answer may ask again, and who asks at the same time as
 *   another, or while one that died over it still has the session, waits for what comes of it.
 */
import type { Claim } from "@turnstep/core/Claim"
import type { SessionId } from "@turnstep/core/Ids"
import type { Journal, SeqBehind } from "@turnstep/core/Journal"
import type { FormatName } from "@turnstep/core/history/Contract"
import * as Import from "@turnstep/core/history/Import"
import type { PastMessage } from "@turnstep/core/Transcript"
import { type FenceLost, type SessionClaimed, SessionNotEmpty, type SessionNotFound } from "@turnstep/core/TurnError"
import type { Fact } from "@turnstep/core/TurnEvent"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import type { EventHub } from "./EventHub.ts"
import * as HistoryWork from "./HistoryWork.ts"

/** Why a history does not come in. */
export type ImportError = HistoryWork.ReadError | SessionNotEmpty | SessionNotFound

/** Characters of JSON one event holds, as long as a single message is not longer. */
const eventSize = 256 * 1024

/** How long is waited for who has the session: longer than a claim outlives its process (H3). */
const patience = Schedule.spaced("200 millis").pipe(Schedule.upTo({ times: 100 }))

/** The last sequence number of a session in which nothing has happened yet. */
const createdSeq = 1

/** Brings a history in (H1, H2). */
export const bringIn = Effect.fn("SessionHistory.bringIn")(function* (
  journal: Journal["Service"],
  claims: Claim["Service"],
  hub: EventHub["Service"],
  sessionId: SessionId,
  history: Import.History | Import.Imported
): Effect.fn.Return<Import.ImportReport, ImportError> {
  const { messages, report } = "report" in history ? history : yield* HistoryWork.read(history)
  const facts = factsOf(report.format, messages)
  const refused = new SessionNotEmpty({ sessionId })
  const comeIn = Effect.gen(function* () {
    const [second] = yield* journal.read(sessionId, { after: createdSeq, limit: 1 })
    if (second !== undefined) {
      // Not claimed in vain: whoever drives it would lose it.
      return second.type === "history.imported" && (yield* isThere(journal, sessionId, messages)) ? [] : yield* refused
    }
    return yield* Effect.acquireUseRelease(
      claims.acquire(sessionId),
      ({ fence }) => journal.append({ sessionId, fence, expectedSeq: createdSeq, facts }),
      ({ fence }) => claims.release(sessionId, fence)
    ).pipe(Effect.uninterruptible)
  })
  const events = yield* comeIn.pipe(
    Effect.retry({ schedule: patience, while: isElsewhere }),
    Effect.catchIf(isElsewhere, () => refused)
  )
  hub.publish(sessionId, events)
  return report
})

/** Somebody else writes to the session, or may. */
const isElsewhere = (error: ImportError | SeqBehind | FenceLost | SessionClaimed) =>
  error._tag === "SeqBehind" || error._tag === "FenceLost" || error._tag === "SessionClaimed"

/** Whether the session began with these messages. */
const isThere = (journal: Journal["Service"], sessionId: SessionId, messages: ReadonlyArray<PastMessage>) =>
  Effect.map(journal.read(sessionId, { after: 0, types: ["history.imported"] }), (events) => {
    const there = events.flatMap((event) => (event.type === "history.imported" ? event.data.messages : []))
    return Import.digestOf({ messages: there }) === Import.digestOf({ messages })
  })

/** The messages as facts of one write, so that no event is much longer than others are. */
const factsOf = (format: FormatName, messages: ReadonlyArray<PastMessage>): ReadonlyArray<Fact> => {
  const facts: Array<Fact> = []
  let part: Array<PastMessage> = []
  let size = 0
  const close = () => {
    if (part.length > 0) facts.push({ type: "history.imported", data: { format, messages: part } })
    part = []
    size = 0
  }
  for (const message of messages) {
    const length = JSON.stringify(message).length
    if (size + length > eventSize) close()
    part.push(message)
    size += length
  }
  close()
  return facts
}
