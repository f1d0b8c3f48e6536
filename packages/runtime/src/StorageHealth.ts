/**
 * How storage fares in this process, from what is asked of it anyway.
 *
 * Owns: whether writes are refused at the moment, one line in the log when trouble begins and when it ends, and the count of
 * what failed. Does not own: the trouble itself (`core/TurnError`), or what callers are told.
 *
 * - H1. Writes are refused from the first that a full, read-only or forbidden storage refused until one succeeds. After half a
 *   minute without either nothing is known any more: who is told that this process takes no writes sends none.
 * - H2. An incident is one line, whatever the number of requests that meet it.
 */
import type { Journal } from "@turnstep/core/Journal"
import { type StorageUnavailable, storageTroubleIn } from "@turnstep/core/TurnError"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Metric from "effect/Metric"

export class StorageHealth extends Context.Service<
  StorageHealth,
  {
    /** Fails while writes are refused (H1). */
    readonly takesWrites: Effect.Effect<void, StorageUnavailable>
    /** A journal whose fortunes are noted here. */
    readonly watched: (journal: Journal["Service"]) => Journal["Service"]
  }
>()("runtime/StorageHealth") {}

/** How long a refusal says something of the next write (H1). */
const memory = Duration.toMillis(Duration.seconds(30))

export const layer: Layer.Layer<StorageHealth> = Layer.sync(StorageHealth, () => {
  let refused: { readonly error: StorageUnavailable; readonly at: number } | undefined
  /** What the log was told last, of reads and of writes (H2). */
  const told: { read: boolean; write: boolean } = { read: false, write: false }

  const failed = (kind: "read" | "write", error: StorageUnavailable) =>
    Effect.gen(function* () {
      yield* Metric.update(failures(error.reason), 1)
      if (kind === "write" && isLasting(error)) refused = { error, at: yield* Clock.currentTimeMillis }
      if (told[kind]) return
      told[kind] = true
      const state = error.state === undefined ? "" : ` (${error.state})`
      yield* Effect.logWarning(`storage fails, and requests are told to come again: ${error.message}${state}`)
    })

  const succeeded = (kind: "read" | "write") =>
    Effect.suspend(() => {
      if (kind === "write") refused = undefined
      if (!told[kind]) return Effect.void
      told[kind] = false
      return Effect.logInfo(kind === "write" ? "storage takes writes again" : "storage answers again")
    })

  const noted =
    (kind: "read" | "write") =>
    <A, E, R>(operation: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
      Effect.onExit(operation, (exit) => {
        if (exit._tag === "Success") return told[kind] || refused !== undefined ? succeeded(kind) : Effect.void
        const error = storageTroubleIn(exit.cause)
        return error === undefined ? Effect.void : failed(kind, error)
      })

  return StorageHealth.of({
    takesWrites: Effect.flatMap(Clock.currentTimeMillis, (now) =>
      refused !== undefined && now - refused.at < memory ? Effect.fail(refused.error) : Effect.void
    ),
    watched: (journal) => ({
      ...journal,
      create: (sessionId, data) => noted("write")(journal.create(sessionId, data)),
      append: (write) => noted("write")(journal.append(write)),
      // A decision that records nothing has read only.
      admit: (sessionId, lookup, decide) =>
        Effect.onExit(journal.admit(sessionId, lookup, decide), (exit) =>
          Effect.exit(noted(exit._tag === "Success" && exit.value.events.length === 0 ? "read" : "write")(exit))
        ),
      read: (sessionId, page) => noted("read")(journal.read(sessionId, page)),
      summary: (sessionId) => noted("read")(journal.summary(sessionId)),
      list: (page) => noted("read")(journal.list(page))
    })
  })
})

/** Trouble that the next write will meet as well. */
const isLasting = ({ reason }: StorageUnavailable): boolean =>
  reason === "full" || reason === "read-only" || reason === "denied"

const failures = (reason: StorageUnavailable["reason"]) =>
  Metric.counter("turnstep_storage_failures", {
    description: "Reads and writes that storage could not do for this process, by reason",
    incremental: true,
    attributes: { reason }
  })
