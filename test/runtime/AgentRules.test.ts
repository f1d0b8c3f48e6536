/** Agents and policies that make no sense, refused where they are made. */
import { assert, describe, it } from "@effect/vitest"
import * as Agent from "@turnstep/runtime/Agent"
import { AgentInvalid, AgentsInvalid } from "@turnstep/runtime/AgentRules"
import * as Demo from "@turnstep/runtime/model/Demo"
import * as Runtime from "@turnstep/runtime/Runtime"
import { DefaultPolicy, type Policy } from "@turnstep/runtime/TurnConfig"
import * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as ToolPolicy from "@turnstep/core/ToolPolicy"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"

const price = { input: 1, output: 5 }

const refused: ReadonlyArray<readonly [policy: Policy, field: string, range: string]> = [
  ...[0, -1, 1.5, Number.NaN, 2 ** 31 - 1, -Infinity].map(
    (maxSteps) => [{ maxSteps }, "maxSteps", "from 1 to 2147483646, or Infinity"] as const
  ),
  ...[0, -5, 0.5, Number.NaN, 2 ** 53].map((maxTokens) => [{ maxTokens }, "maxTokens", "whole number from 1"] as const),
  ...[1, 0, 2.5, Number.NaN].map(
    (repeatedToolCallLimit) => [{ repeatedToolCallLimit }, "repeatedToolCallLimit", "whole number from 2"] as const
  ),
  ...[0, -1, Number.NaN].map((failureLimit) => [{ failureLimit }, "failureLimit", "whole number from 1"] as const),
  [{ maxDuration: Duration.zero }, "maxDuration", "longer than none"],
  [{ maxDuration: "0 seconds" }, "maxDuration", "longer than none"],
  [{ cost: { max: 0, price } }, "cost.max", "more than 0"],
  [{ cost: { max: Number.NaN, price } }, "cost.max", "more than 0"],
  [{ cost: { max: 1, price: { input: Number.NaN, output: 1 } } }, "cost.price.input", "0 or more"],
  [{ cost: { max: 1, price: { input: 0, output: -1 } } }, "cost.price.output", "0 or more"]
]

const taken: ReadonlyArray<Policy> = [
  {},
  { maxSteps: 1, maxTokens: 1, repeatedToolCallLimit: 2, failureLimit: 1, maxDuration: "5 seconds" },
  { maxSteps: 2 ** 31 - 2, maxTokens: Number.MAX_SAFE_INTEGER, maxDuration: Duration.infinity },
  { maxSteps: Infinity, maxTokens: Infinity, repeatedToolCallLimit: Infinity, failureLimit: Infinity },
  { cost: { max: Infinity, price: { input: 0, output: 0 } } }
]

const make = (name: string, policy: Policy = {}) => Agent.make(name, { instructions: "Answer.", policy })

const thrown = (make: () => unknown): unknown => {
  try {
    make()
  } catch (error) {
    return error
  }
  return undefined
}

/** What the layer of a runtime dies of. */
const defectOf = (agents: ReadonlyArray<Agent.Agent<unknown>>, policy: Policy = {}) =>
  Effect.gen(function* () {
    const runtime = Layer.provide(Runtime.layerMemory(agents), [Demo.layer, Layer.succeed(DefaultPolicy, policy)])
    const exit = yield* Effect.exit(Layer.build(runtime as Layer.Layer<Runtime.Services>))
    return Exit.isFailure(exit) ? Cause.squash(exit.cause) : undefined
  }).pipe(Effect.scoped)

describe("An agent", () => {
  for (const [policy, field, range] of refused) {
    it(`is refused with ${JSON.stringify(policy, (_, value) => (typeof value === "number" ? String(value) : value))}`, () => {
      const error = thrown(() => make("hand", policy))
      assert(error instanceof AgentInvalid)
      assert.include(error.message, `Agent "hand" cannot be used: ${field} is `)
      assert.include(error.message, range)
    })
  }

  it("may use every value in range, and Infinity for no limit", () => {
    for (const policy of taken) assert.isUndefined(thrown(() => make("hand", policy)))
  })

  it("is refused with a tool whose annotation is no value of it", () => {
    const toolkit = Toolkit.make(Tool.make("charge").annotate(ToolPolicy.Effects, "onec"))
    const error = thrown(() => Agent.make("hand", { instructions: "Answer.", toolkit }))
    assert(error instanceof AgentInvalid)
    assert.include(error.message, 'Agent "hand" cannot be used: tool "charge": ToolPolicy.Effects is "onec"')
  })

  it("has a name", () => {
    for (const name of ["", "  "])
      assert.instanceOf(
        thrown(() => make(name)),
        AgentInvalid
      )
  })
})

describe("The agents of a runtime", () => {
  it.effect("are one at least", () =>
    Effect.gen(function* () {
      const defect = yield* defectOf([])
      assert(defect instanceof AgentsInvalid)
      assert.include(defect.message, "it has no agents")
    })
  )

  it.effect("have names of their own, those made by hand as well", () =>
    Effect.gen(function* () {
      const defect = yield* defectOf([make("one"), make("two"), make("one")])
      assert(defect instanceof AgentsInvalid)
      assert.include(defect.message, 'two of its agents have the name "one"')
      assert.instanceOf(yield* defectOf([{ ...make("one"), name: "" }]), AgentInvalid)
    })
  )

  it.effect("fall back on a policy that makes sense", () =>
    Effect.gen(function* () {
      const defect = yield* defectOf([make("one")], { maxSteps: 0 })
      assert(defect instanceof AgentsInvalid)
      assert.include(defect.message, "DefaultPolicy: maxSteps is 0")
      assert.isUndefined(yield* defectOf([make("one")], { maxSteps: 3 }))
    })
  )
})
