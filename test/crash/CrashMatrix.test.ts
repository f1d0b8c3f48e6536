/** A few cells of the crash matrix, for every run of the suite; all of them are in `npm run test:crash`. */
import { places } from "@turnstep/core/CrashPoint"
import * as Matrix from "./Matrix.ts"
import { placeOf } from "./Told.ts"

const few = new Set([
  "input-accepted after-commit",
  "step-requested before-commit",
  "response-accepted after-commit",
  "tool-finished after-ack",
  "result-recorded before-commit",
  "receipts-written after-ack"
])

Matrix.suite(
  "PGlite",
  places.filter(({ boundary, cut }) => few.has(placeOf(boundary, cut))),
  1
)
