import { assert, it, layer } from "@effect/vitest"
import { StorageUnavailable } from "@turnstep/core/TurnError"
import * as SqlFailure from "@turnstep/runtime/sql/SqlFailure"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import { SqlClient } from "effect/sql/SqlClient"
import * as SqlError from "effect/sql/SqlError"
import * as TestClock from "effect/testing/TestClock"
import * as Postgres from "../fixtures/Postgres.ts"

/** An error of a real server with this code. */
const raised = (state: string) =>
  Effect.flatMap(SqlClient, (sql) =>
    sql.unsafe(`do $$ begin raise exception 'the secret of 10.0.0.7' using errcode = '${state}'; end $$`)
  )

const table: ReadonlyArray<readonly [state: string, reason: StorageUnavailable["reason"] | undefined]> = [
  ["53100", "full"],
  ["53200", "full"],
  ["53300", "unreachable"],
  ["58030", "full"],
  ["25006", "read-only"],
  ["57014", "busy"],
  ["55P03", "busy"],
  ["40001", "busy"],
  ["42501", "denied"],
  ["57P01", "unreachable"],
  ["57P04", "unreachable"],
  ["08006", "unreachable"],
  ["23505", undefined],
  ["42703", undefined],
  ["TS002", undefined]
]

layer(Postgres.layer(), { excludeTestServices: true })("SqlFailure", (it) => {
  for (const [state, reason] of table) {
    it.effect(`tells of ${state} as ${reason ?? "a bug"}, without the words of the database`, () =>
      Effect.gen(function* () {
        const exit = yield* Effect.exit(SqlFailure.orUnavailable(raised(state)))
        assert(Exit.isFailure(exit))
        const defect = Cause.squash(exit.cause)
        if (reason === undefined) return assert.instanceOf(defect, SqlError.SqlError)
        assert(defect instanceof StorageUnavailable)
        assert.deepStrictEqual([defect.reason, defect.state], [reason, state])
        assert.notInclude(defect.message, "secret")
      })
    )
  }
})

it.effect("waits for a statement no longer than it is to, and does not wait for it to be given up either", () =>
  Effect.gen(function* () {
    const stubborn = Effect.uninterruptible(Effect.never)
    const waiting = yield* Effect.forkChild(
      Effect.exit(SqlFailure.bounded("35 seconds")(stubborn).pipe(SqlFailure.orUnavailable)),
      { startImmediately: true }
    )
    yield* TestClock.adjust("34 seconds")
    assert.isUndefined(waiting.pollUnsafe())
    yield* TestClock.adjust("1 second")
    const exit = yield* Fiber.join(waiting)
    assert(Exit.isFailure(exit))
    assert.deepInclude(Cause.squash(exit.cause), { _tag: "StorageUnavailable", reason: "unreachable" })
  })
)

it.effect("gives up a statement with whoever waited for it", () =>
  Effect.gen(function* () {
    let isGivenUp = false
    const statement = Effect.onInterrupt(Effect.never, () => Effect.sync(() => void (isGivenUp = true)))
    const waiting = yield* Effect.forkChild(SqlFailure.bounded("35 seconds")(statement), { startImmediately: true })
    yield* Fiber.interrupt(waiting)
    assert.isTrue(isGivenUp)
  })
)
