import { assert, describe, it } from "@effect/vitest"
import { SessionId } from "@turnstep/core/Ids"
import * as Import from "@turnstep/core/history/Import"
import { repair } from "@turnstep/core/history/Repair"
import { verify } from "@turnstep/core/history/Verify"
import type { TurnEvent } from "@turnstep/core/TurnEvent"
import * as HistoryTask from "@turnstep/runtime/HistoryTask"
import * as HistoryWork from "@turnstep/runtime/HistoryWork"
import * as OffThread from "@turnstep/runtime/offthread/OffThread"
import * as Effect from "effect/Effect"

/** A chat of so many rounds, each with a call that nobody answered. */
const rounds = (count: number): ReadonlyArray<unknown> =>
  Array.from({ length: count }, (_, n) => [
    { role: "user", content: `question ${n} ${"é".repeat(100)}` },
    {
      role: "assistant",
      tool_calls: [{ id: `call_${n}`, type: "function", function: { name: "look", arguments: `{"n":${n}}` } }]
    },
    { role: "user", content: "and?" }
  ]).flat()

/** Task processes, and how many tasks they were given. */
const counted = () => {
  const pool = OffThread.make()
  const seen = { tasks: 0 }
  const service: OffThread.Service = {
    run: (task, input, options) => {
      seen.tasks++
      return pool.run(task, input, options)
    }
  }
  return { seen, provide: Effect.provideService(OffThread.OffThread, service) }
}

const format = "openai-chat"

describe("HistoryWork", () => {
  it.live("gives for a large history, from a task process, what it gives for a small one at once", () =>
    Effect.gen(function* () {
      for (const [count, tasks] of [
        [2, 0],
        [2_000, 4]
      ] as const) {
        const { provide, seen } = counted()
        const messages = rounds(count)
        const check = { messages, format, context: undefined } as const
        yield* Effect.gen(function* () {
          const verified = yield* HistoryWork.verify(check, 10)
          const findings = verify(format, messages)
          assert.deepStrictEqual(verified, {
            format,
            findings: findings.slice(0, 10),
            omitted: Math.max(0, findings.length - 10)
          })
          const repaired = yield* HistoryWork.repair(check)
          assert.deepStrictEqual(
            "json" in repaired ? JSON.parse(repaired.json) : repaired,
            JSON.parse(JSON.stringify({ format, ...repair(format, messages) }))
          )
          const imported = yield* HistoryWork.read({ messages, format })
          const due = Import.read({ messages, format })
          if ("_tag" in due) throw due
          assert.deepStrictEqual({ ...imported }, { ...due, digest: Import.digestOf(due) })
          const events: ReadonlyArray<TurnEvent> = [
            { type: "session.created", data: { agent: "a" } },
            { type: "history.imported", data: { format, messages: imported.messages } }
          ].map((fact, n) => ({ ...fact, seq: n + 1, fence: 0, at: 0 })) as never
          const input = { sessionId: SessionId.make("s"), events, format } as const
          assert.deepStrictEqual(yield* HistoryWork.write(input), HistoryTask.write(input))
        }).pipe(provide)
        assert.strictEqual(seen.tasks, tasks)
      }
    })
  )

  it.live("refuses a large history as it refuses a small one", () =>
    Effect.gen(function* () {
      for (const text of ["hi", "x".repeat(300_000)]) {
        const messages = [{ role: "system", content: text }]
        const empty = yield* Effect.flip(HistoryWork.read({ messages, format }))
        assert.strictEqual(empty._tag, "HistoryEmpty")
        const unclear = yield* HistoryWork.verify(
          { messages: [{ role: "user", content: text }], format: undefined, context: undefined },
          10
        )
        assert.property(unclear, "candidates")
      }
    })
  )
})
