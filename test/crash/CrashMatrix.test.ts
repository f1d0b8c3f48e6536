/** A few cells of the crash matrix, for every run of the suite; all of them are in `npm run test:crash`. */
import { places } from "@turnstep/core/CrashPoint"
import * as Matrix from "./Matrix.ts"
import { placeOf } from "./Told.ts"

const some = (...few: ReadonlyArray<string>) =>
  places.filter(({ boundary, cut }) => few.includes(placeOf(boundary, cut)))

Matrix.census("PostgreSQL")

Matrix.suite(
  "PostgreSQL",
  some(
    "input-accepted after-commit",
    "step-requested before-commit",
    "breaker-tripped after-commit",
    "receipts-written after-ack"
  ),
  1
)

Matrix.suite(
  "PGlite",
  some(
    "response-accepted after-commit",
    "spill-written after-ack",
    "tool-finished after-ack",
    "result-recorded before-commit"
  ),
  1
)
