/**
 * What a database holds for a process that starts on it: Turns that go on, and messages that wait for one.
 */
import * as Effect from "effect/Effect"
import * as Place from "./Place.ts"

export interface Backlog {
  /** Turns without an end. */
  readonly turns: number
  /** Messages that no Turn has read. */
  readonly messages: number
}

/** Reads the counts; of a database without tables both are 0. */
export const read = Effect.gen(function* () {
  const { name, schema, sql } = yield* Place.Place
  const [table] = yield* sql<{
    readonly known: boolean
  }>`select to_regclass(${`"${name}".sessions`}) is not null as known`
  if (table?.known !== true) return { turns: 0, messages: 0 } satisfies Backlog
  const [row] = yield* sql<Backlog>`
    select count(active_turn)::int as turns, coalesce(sum(waiting), 0)::int as messages
    from ${schema}.sessions where active_turn is not null or waiting > 0`
  return row ?? ({ turns: 0, messages: 0 } satisfies Backlog)
})
