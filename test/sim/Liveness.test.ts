import { assert, describe, it } from "@effect/vitest"
import * as CrashPoint from "@turnstep/core/CrashPoint"
import * as Batch from "./Batch.ts"
import * as Faults from "./Faults.ts"

/** What a suite of histories must have in it to say anything. */
const faults = [
  "kill",
  "kill-in-store",
  "fail-before",
  "fail-after",
  "outage",
  "deaf",
  "refuse",
  "stop",
  "steal",
  "shutdown"
]
const events = ["inbox.moved", "inbox.returned", "worker.claimed", "call.completed", "call.receipt"]
const ends = ["turn.completed", "turn.exhausted", "turn.tripped", "turn.cancelled", "turn.failed"]

describe("Simulation", () => {
  it("comes to rest after the last fault with every promise kept", { timeout: 300_000 }, () => {
    const seen = Batch.run("liveness", Batch.seeds)
    if (Batch.seeds < 2_000) return
    for (const each of [...faults, ...events, ...ends]) assert.isTrue(seen.has(each), `${each} was never seen`)
    const missed = CrashPoint.places.filter(({ boundary, cut }) => !seen.has(Faults.placeOf(boundary, cut)))
    assert.isBelow(missed.length, CrashPoint.places.length / 8, `no process died at ${JSON.stringify(missed)}`)
  })
})
