/**
 * A served agent under the answers of a hostile model at full size: the server answers, stays within its memory, goes on with
 * other conversations, keeps its leases, and the hostile Turn ends by itself.
 */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Postgres from "../fixtures/Postgres.ts"
import { attacks } from "../hostile/Attacks.ts"
import * as Siege from "../hostile/Siege.ts"
import * as Databases from "../sql/Databases.ts"

const judge = (reports: ReadonlyArray<Siege.Report>) => {
  for (const { end, grown, name, others, slowest } of reports) {
    assert.isBelow(slowest, 1_000, `${name}: /healthz`)
    assert.isAtMost(grown, 256, `${name}: memory in MiB`)
    assert.isAbove(others, 0, `${name}: other conversations`)
    assert.match(end, /^turn\./, name)
  }
}

it.live(
  "an embedded server outlives every answer of a hostile model",
  () =>
    Siege.lay({ attacks, scale: 1, files: 20_000 }).pipe(
      Effect.map(judge),
      Effect.scoped,
      Effect.provide(NodeServices.layer)
    ),
  { timeout: 1_800_000 }
)

it.live(
  "two servers on PostgreSQL outlive every answer of a hostile model and lose no lease",
  () =>
    Effect.gen(function* () {
      const url = yield* Postgres.freshUrl(Databases.template)
      judge(yield* Siege.lay({ attacks, scale: 1, files: 20_000, databaseUrl: Redacted.value(url) }))
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer)),
  { timeout: 1_800_000 }
)
