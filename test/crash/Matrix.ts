/**
 * The crash matrix: every place of `CrashPoint`, on both databases, at its first passings.
 *
 * Owns: which cells there are, and the table that is printed. Does not own: a cell (`Cell`).
 */
import { assert, it } from "@effect/vitest"
import { places } from "@turnstep/core/CrashPoint"
import * as Effect from "effect/Effect"
import type { Database } from "../fixtures/Databases.ts"
import * as Cell from "./Cell.ts"
import { placeOf } from "./Told.ts"

const timeout = { timeout: 120_000 }

type Place = (typeof places)[number]

/** A test for each place and each of its first `passings`; and one that every place is passed by the conversation. */
export const suite = (database: Database["name"], of: ReadonlyArray<Place>, passings: number): void => {
  const table = new Map<string, Array<string>>()
  const note = (place: string, what: string) => table.set(place, [...(table.get(place) ?? []), what])

  it.live(
    `${database}: the conversation passes every place there is`,
    () =>
      Effect.gen(function* () {
        const { complaints, passed } = yield* Cell.run(database, undefined)
        assert.deepStrictEqual(complaints, [])
        const missing = places.filter(({ boundary, cut }) => passed[placeOf(boundary, cut)] === undefined)
        assert.deepStrictEqual(missing, [])
      }),
    timeout
  )

  for (const { boundary, cut } of of) {
    for (let nth = 1; nth <= passings; nth++) {
      const place = placeOf(boundary, cut)
      it.live(
        `${database}: a process that dies at ${place} (passing ${nth}) costs nothing`,
        () =>
          Effect.gen(function* () {
            const { complaints, died, took } = yield* Cell.run(database, { boundary, cut, nth })
            note(place, died ? (complaints.length === 0 ? `${took} ms` : "BROKEN") : "-")
            assert.deepStrictEqual(complaints, [])
            if (nth === 1) assert.isTrue(died, "the place was not passed")
          }),
        timeout
      )
    }
  }

  if (passings > 1) {
    it(`${database}: the table`, () => {
      const rows = [...table].map(([place, cells]) => [place, ...cells])
      const died = rows.flat().filter((cell) => cell.endsWith(" ms") || cell === "BROKEN").length
      console.log([`${database}: ${died} processes killed`, ...rows.map((row) => row.join(" | "))].join("\n"))
      assert.isAtLeast(died, of.length)
    })
  }
}
