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

const timeout = { timeout: 240_000 }

type Place = (typeof places)[number]

/** The number of passings each place is tried at; more in a nightly run. */
export const passings = Number(process.env["CRASH_PASSINGS"] ?? 1)

/** A test for each place and each of its first `passings`, and what they came to. */
export const suite = (database: Database["name"], of: ReadonlyArray<Place>, passings: number): void => {
  const table = new Map<string, Array<string>>()
  const note = (place: string, what: string) => table.set(place, [...(table.get(place) ?? []), what])

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

  it(`${database}: the table of ${of.length} places`, () => {
    const cells = [...table.values()].flat().filter((cell) => cell !== "-")
    const rows = [...table].map(([place, row]) => `${place.padEnd(32)} ${row.join(" | ")}`)
    console.log([`${database}: ${cells.length} processes killed`, ...rows].join("\n"))
    assert.isAtLeast(cells.length, of.length)
  })
}

/** A place that is listed and not passed is a hole in the matrix. */
export const census = (database: Database["name"]): void =>
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
