/** Sessions that are used inside a transaction of the application. */
import { assert, layer } from "@effect/vitest"
import { CalledInTransaction } from "@turnstep/core/TurnError"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { SqlClient } from "effect/sql/SqlClient"
import * as Databases from "../sql/Databases.ts"
import * as Operations from "../fixtures/Operations.ts"
import * as Stores from "../fixtures/Stores.ts"
import * as World from "../fixtures/World.ts"

const { text } = StrictProvider

/** Each in a session that has one Turn; what is refused there is done as well. */
const operations = Object.entries(Operations.ofSession)

const made = Effect.gen(function* () {
  const sql = yield* SqlClient
  yield* sql`create table if not exists orders (id text primary key)`
  const world = yield* World.withTools({ respond: () => text("done") })
  return { ...world, sql }
})

for (const { layer: database, name } of Databases.migrated) {
  layer(Databases.storage(database), Stores.live)(`A transaction on ${name}`, (it) => {
    if (name === "PostgreSQL") {
      it.effect("is left alone by a session that is opened and used in it, and takes nothing of it back", () =>
        Effect.gen(function* () {
          const { sessions, sql } = yield* made
          const session = yield* sql
            .withTransaction(
              Effect.gen(function* () {
                yield* sql`insert into orders values ('rolled back')`
                const session = yield* sessions.open({ id: "in-a-transaction" })
                assert.strictEqual((yield* session.run("hello"))._tag, "Answered")
                return yield* Effect.fail({ _tag: "RolledBack" as const, session })
              })
            )
            .pipe(Effect.catchTag("RolledBack", ({ session }) => Effect.succeed(session)))
          assert.strictEqual((yield* session.summary).turns, 1)
          assert.isEmpty(yield* sql`select * from orders where id = 'rolled back'`)
        })
      )

      for (const [operation, use] of operations) {
        it.effect(`lets ${operation} go on beside it`, () =>
          Effect.gen(function* () {
            const { session, sql } = yield* made
            yield* session.run("hello")
            yield* sql.withTransaction(
              Effect.andThen(sql`insert into orders values (${operation})`, Effect.ignore(use(session)))
            )
            yield* session.run("and after it")
            assert.lengthOf(yield* sql`select * from orders where id = ${operation}`, 1)
          })
        )
      }
    } else {
      for (const [operation, use] of operations) {
        it.effect(`refuses ${operation} at once, and goes on`, () =>
          Effect.gen(function* () {
            const { session, sql } = yield* made
            yield* session.run("hello")
            const exit = yield* sql.withTransaction(
              Effect.andThen(sql`insert into orders values (${operation})`, Effect.exit(use(session)))
            )
            assert(Exit.isFailure(exit))
            assert.instanceOf(Cause.squash(exit.cause), CalledInTransaction)
            assert.lengthOf(yield* sql`select * from orders where id = ${operation}`, 1)
          })
        )
      }

      it.effect("refuses a session to be opened in it", () =>
        Effect.gen(function* () {
          const { sessions, sql } = yield* made
          const exit = yield* sql.withTransaction(Effect.exit(sessions.open()))
          assert(Exit.isFailure(exit))
          assert.instanceOf(Cause.squash(exit.cause), CalledInTransaction)
        })
      )
    }

    it.effect("has a message sent after it where the application says so, and none where it is rolled back", () =>
      Effect.gen(function* () {
        const { session, sql } = yield* made
        const order = <E>(id: string, after: Effect.Effect<void, E>) =>
          sql.withTransaction(Effect.andThen(sql.afterCommit(Effect.ignore(session.send(id))), after))
        yield* Effect.flip(order("rolled back", Effect.fail("rolled back")))
        yield* order("committed", Effect.void)
        yield* World.ended(session, 1)
        assert.lengthOf(World.dataOf(yield* World.events(session), "inbox.admitted"), 1)
      })
    )
  })
}
