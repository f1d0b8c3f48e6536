/**
 * Two versions of an application on one PostgreSQL, each with an agent that the other does not know, killed and stopped by
 * chance under clients that send to either. At the end: every message is applied once, no Turn failed, and no process has
 * ever claimed a session of an agent that it does not know.
 */
import { assert, it } from "@effect/vitest"
import * as Postgres from "@turnstep/runtime/database/Postgres"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import * as Scope from "effect/Scope"
import { SqlClient } from "effect/sql/SqlClient"
import * as Child from "../fixtures/Child.ts"
import * as PostgresFixture from "../fixtures/Postgres.ts"
import * as Server from "../fixtures/Server.ts"
import * as Databases from "../sql/Databases.ts"
import * as Fleet from "./Fleet.ts"

const time = Duration.seconds(Number(process.env["FLEET_SECONDS"] ?? 25))

/** The agents of each version. */
const versions = { former: ["both", "old"], next: ["both", "new"] } as const
type Version = keyof typeof versions

/** Sessions, with their agents. */
const sessions = ["both", "old", "new"].flatMap((agent) => [1, 2].map((n) => ({ agent, id: `${agent}-${n}` })))

/** Asks the tool for every message, and answers when it has told. */
const respond: StrictProvider.Respond = ({ messages }) => {
  const last = messages.at(-1)
  return last?.role === "user"
    ? StrictProvider.calls([{ name: "which", arguments: { message: JSON.stringify(last.content) } }])
    : StrictProvider.text("It has told.")
}

/** A process of a version: there is always one, or one on its way. `pids` learns which version a process is. */
const makeSeat = Effect.fnUntraced(function* (
  version: Version,
  pids: Map<number, Version>,
  args: ReadonlyArray<string>
) {
  const start = Effect.gen(function* () {
    const scope = yield* Scope.fork(yield* Effect.scope)
    const child = yield* Child.start("serveAgents", version, versions[version].join(), ...args).pipe(
      Scope.provide(scope)
    )
    pids.set(child.pid, version)
    const port = yield* child.line
    return { child, scope, server: Server.at(`http://127.0.0.1:${port}`) }
  })
  let current = yield* start
  // Not interrupted in between: sessions of its agents have no other process.
  const strike = Effect.uninterruptible(
    Effect.gen(function* () {
      const how = Fleet.pick(["kill", "stop"] as const)
      yield* current.child[how]
      yield* Scope.close(current.scope, Exit.void)
      current = yield* start
      return how
    })
  )
  return { server: () => current.server, strike }
})

/** Has the database note whoever claims a session, in the transaction of the claim. */
const noteClaims = Effect.gen(function* () {
  const sql = yield* SqlClient
  yield* sql`create table claims (agent text, pid int)`
  yield* sql`create function note_claim() returns trigger language plpgsql as $$ begin
    insert into public.claims select new.agent #>> '{}', substring(address from '[0-9]+$')::int
    from turnstep.runners where incarnation = new.owner;
    return null; end $$`
  yield* sql`create trigger note_claim after update of owner on turnstep.sessions for each row
    when (new.owner is not null) execute function note_claim()`
})

const readClaims = Effect.flatMap(
  SqlClient,
  (sql) => sql<{ readonly agent: string; readonly pid: number }>`select distinct agent, pid from claims`
)

it.live(
  "two versions that die and stop under their clients leave each other's sessions alone and lose nothing",
  () =>
    Effect.gen(function* () {
      const url = yield* PostgresFixture.freshUrl(Databases.template)
      const provider = yield* StrictProvider.make({ respond })
      const database = Effect.provide(Postgres.layer({ url, maxConnections: 1 }))
      yield* database(noteClaims)
      const pids = new Map<number, Version>()
      const args = [Redacted.value(url), provider.baseUrl]
      const seats = yield* Effect.all([makeSeat("former", pids, args), makeSeat("next", pids, args)], {
        concurrency: 2
      })
      const ask = Fleet.asking(seats)
      const sent = new Map<string, Array<string>>()
      const strikes: Record<string, number> = {}

      // Only a process that knows the agent makes a session of it.
      const open = ({ agent, id }: (typeof sessions)[number]) =>
        ask("/api/sessions", { method: "POST", body: { id, agent }, headers: { "idempotency-key": id } }).pipe(
          Effect.repeat({ until: ({ status }) => status === 201, schedule: Schedule.spaced("50 millis") })
        )
      const talk = Effect.fnUntraced(function* (session: (typeof sessions)[number]) {
        yield* open(session)
        const texts: Array<string> = []
        sent.set(session.id, texts)
        for (let n = 0; ; n++) {
          yield* Fleet.send(ask, session.id, `${session.id} #${n}`, texts)
          yield* Effect.sleep(Fleet.below(3_000))
        }
      })
      const strike = Effect.gen(function* () {
        yield* Effect.sleep(1_000 + Fleet.below(3_000))
        const how = yield* Fleet.pick(seats).strike
        strikes[how] = (strikes[how] ?? 0) + 1
      })
      yield* Effect.all([Effect.forever(strike), ...sessions.map(talk)], { concurrency: "unbounded" }).pipe(
        Effect.timeoutOption(time)
      )

      const complaints: Array<string> = []
      const served = new Map<string, Set<unknown>>()
      for (const { agent, id } of sessions) {
        const events = yield* Fleet.recordOf(ask, id)
        complaints.push(...Fleet.complaintsOf(id, events, sent.get(id) ?? []))
        const by = served.get(agent) ?? new Set()
        for (const { data, type } of events) if (type === "call.completed") by.add(data.output)
        served.set(agent, by)
      }
      assert.deepStrictEqual(complaints, [])
      assert.deepStrictEqual(provider.refusals, [])
      assert.deepStrictEqual([...(served.get("old") ?? [])], ["former"])
      assert.deepStrictEqual([...(served.get("new") ?? [])], ["next"])
      const claims = yield* database(readClaims)
      const foreign = claims.filter(({ agent, pid }) => {
        const version = pids.get(pid)
        return version === undefined || !(versions[version] as ReadonlyArray<string>).includes(agent)
      })
      assert.deepStrictEqual(foreign, [])
      assert.sameMembers([...new Set(claims.map(({ agent }) => agent))], ["both", "old", "new"])
      console.log(JSON.stringify(strikes), [...sent].map(([id, texts]) => `${id}: ${texts.length} messages`).join("; "))
    }).pipe(Effect.scoped),
  { timeout: 300_000 }
)
