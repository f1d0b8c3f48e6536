/** A Turn may be cancelled at any point of any schedule: the record stays true and the next message is never refused. */
import { assert, describe } from "@effect/vitest"
import * as Admission from "@turnstep/core/Admission"
import { SeqBehind } from "@turnstep/core/Journal"
import type { Journal } from "@turnstep/core/Journal"
import * as Effect from "effect/Effect"
import * as fc from "fast-check"
import * as Log from "../../fixtures/Log.ts"
import * as Schedule from "../../fixtures/Schedule.ts"
import * as Sound from "../../fixtures/Sound.ts"
import type { It } from "../../fixtures/Stores.ts"
import * as World from "../../fixtures/World.ts"

/** What the record may say of an act. */
const allowed = ({ isRecorded, isReleased, tool }: Schedule.Act): ReadonlyArray<string> => {
  const unfinished = tool === "look" ? "cancelled" : "outcome-unknown"
  return isRecorded ? ["ok"] : isReleased ? ["ok", unfinished] : [unfinished]
}

/** Plays a plan in a session of its own and checks what must hold. */
const checkPlan = Effect.fnUntraced(function* (
  world: Effect.Success<ReturnType<typeof World.withTools>>,
  stage: ReturnType<typeof Schedule.stage>,
  label: string,
  plan: Schedule.Plan
) {
  const session = yield* world.sessions.open({ id: label })
  const { acts, told } = yield* Schedule.play(session, label, plan, world.tools, stage)
  const end = yield* World.ended(session, 1)
  assert.strictEqual(end.type, told === "cancelling" ? "turn.cancelled" : "turn.completed")
  noise.isOn = false
  yield* session.run("next")
  noise.isOn = true
  const events = yield* World.events(session)
  const answers = World.answers(events)
  for (const [act, answer] of Object.entries(answers)) {
    const known = acts.get(act)
    assert.isDefined(known, act)
    assert.include(allowed(known), answer, act)
  }
  assert.lengthOf(Object.keys(answers), World.dataOf(events, "call.requested").length)
  assert.deepStrictEqual(
    World.dataOf(events, "turn.settled").flatMap(({ receipts }) => receipts),
    World.dataOf(events, "call.receipt").map(({ callId, outcome }) => ({ callId, outcome }))
  )
  for (const act of acts.keys()) assert.isAtMost(world.tools.started.filter((run) => run.act === act).length, 1, act)
  assert.isEmpty(yield* Sound.complaints(session, world.provider, world.tools))
})

/** Others write only during the Turn that is cancelled: nobody hears of it before the sweep when they write behind its back. */
const noise = { isOn: true }

/** A store where others write at any moment, and which says that they did when they did not. */
const contended =
  (draw: (below: number) => number) =>
  (journal: Journal["Service"]): Journal["Service"] => ({
    ...journal,
    append: (write) =>
      Effect.gen(function* () {
        const what = noise.isOn ? draw(6) : 5
        if (what === 0 && write.expectedSeq !== undefined) return yield* Effect.fail(new SeqBehind(write.expectedSeq))
        if (what === 1) {
          const request = Log.request("from elsewhere", { ifNotApplied: draw(2) === 0 ? "return" : "follow-up" })
          yield* Effect.ignore(journal.admit(write.sessionId, {}, Admission.send(request)))
        }
        if (what === 2) {
          const itemId = `inb_${2 + draw(4)}`
          const decide =
            draw(2) === 0 ? Admission.withdraw(itemId) : Admission.move(itemId, draw(2) === 0 ? "steer" : "follow-up")
          yield* Effect.ignore(journal.admit<unknown, unknown>(write.sessionId, { itemId }, decide))
        }
        return yield* journal.append(write)
      })
  })

let labels = 0

/** Checks a property on a world of its own, with shrinking. */
const assertAlways = Effect.fnUntraced(function* (
  runs: number,
  world: Effect.Success<ReturnType<typeof World.withTools>>,
  stage: ReturnType<typeof Schedule.stage>
) {
  const context = yield* Effect.context<never>()
  const property = fc.asyncProperty(Schedule.plans, (plan) =>
    Effect.runPromiseWith(context)(checkPlan(world, stage, `run-${++labels}`, plan))
  )
  yield* Effect.promise(() => fc.assert(property, { numRuns: runs }))
})

/** The property on a store, so many times; `TURNSTEP_PROPERTY_RUNS` asks for more. */
export const suite =
  (times: number) =>
  (it: It): void => {
    const runs = Number(process.env["TURNSTEP_PROPERTY_RUNS"] ?? times)
    const check = (name: string, around?: (journal: Journal["Service"]) => Journal["Service"]) =>
      it.effect(
        name,
        () =>
          Effect.gen(function* () {
            const stage = Schedule.stage()
            const world = yield* World.withTools({ respond: stage.respond, around })
            yield* assertAlways(runs, world, stage)
          }),
        600_000
      )
    describe("Cancel anywhere", () => {
      check("leaves a true record and a session that goes on")
      check(
        "does so when others write to the session at any moment",
        contended(Schedule.dice(fc.sample(fc.nat(255), 5000)))
      )
    })
  }
