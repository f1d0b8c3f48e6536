/** A served agent under the answers of a hostile model, small enough for every run; `test/crash` has them at full size. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { attacks } from "../hostile/Attacks.ts"
import * as Siege from "../hostile/Siege.ts"

it.live(
  "the Turn of a hostile model ends by itself, and other conversations go on meanwhile",
  () =>
    Effect.gen(function* () {
      const reports = yield* Siege.lay({ attacks, scale: 0.04, files: 500 })
      for (const { end, name, others } of reports) {
        assert.match(end, /^turn\./, name)
        assert.isAbove(others, 0, name)
      }
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer)),
  { timeout: 180_000 }
)
