/**
 * A tool output of a gigabyte, end to end: made, kept, searched and downloaded through a real server in a process of its own.
 * `HUGE_MIB` sets another size.
 */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, it } from "@effect/vitest"
import * as ToolOutput from "@turnstep/core/ToolOutput"
import * as DemoOutput from "@turnstep/runtime/tools/DemoOutput"
import * as Effect from "effect/Effect"
import { createHash } from "node:crypto"
import * as Child from "../fixtures/Child.ts"
import * as Folder from "../fixtures/Folder.ts"
import * as Server from "../fixtures/Server.ts"
import * as Sse from "../fixtures/Sse.ts"

const mebibytes = Number(process.env["HUGE_MIB"] ?? 1024)
const lines = (mebibytes * 1024 * 1024) / DemoOutput.lineBytes

/** The digest of what the tool gives, made here from its definition. */
const sourceDigest = (): string => {
  const hash = createHash("sha256")
  for (let first = 1; first <= lines; first += 4096) {
    const piece = Array.from({ length: Math.min(4096, lines - first + 1) }, (_, n) => DemoOutput.line(first + n))
    hash.update(piece.join(""))
  }
  return hash.digest("hex")
}

interface Memory {
  readonly now: number
  readonly max: number
}

it.live(
  `an output of ${mebibytes} MiB takes less than 64 MiB of memory, and every byte of it can be had`,
  () =>
    Effect.gen(function* () {
      const folder = yield* Folder.make({})
      const child = yield* Child.start("serveSpills", JSON.stringify({ folder }))
      const told = JSON.parse((yield* child.line) ?? "{}")
      const server = Server.at(told.url)
      const memory = Effect.promise(async (): Promise<Memory> => (await fetch(told.memory)).json() as Promise<Memory>)
      const turn = Effect.fn(function* (id: string, text: string) {
        yield* server.json("/api/sessions", { method: "POST", body: { id } })
        const reader = yield* Sse.open(server, `/api/sessions/${id}/events`)
        yield* server.json(`/api/sessions/${id}/messages`, { method: "POST", body: { text } })
        return yield* reader.until(Sse.isEvent("turn.completed"))
      }, Effect.scoped)
      const download = Effect.fn(function* (id: string, spill: string) {
        const response = yield* server.fetch(`/api/sessions/${id}/spills/${spill}`)
        const hash = createHash("sha256")
        yield* Effect.promise(async () => {
          for await (const piece of response.body ?? []) hash.update(piece)
        })
        return hash.digest("hex")
      })
      const spillIn = (frames: ReadonlyArray<Sse.Frame>) =>
        String(frames.find(Sse.isEvent("spill.created"))?.data.data["spillId"])

      // Code is compiled and buffers are there from the first use on: what counts is what a larger output takes.
      const small = yield* turn("warm", "/huge 48MB")
      yield* download("warm", spillIn(small))
      const before = yield* memory

      const began = performance.now()
      const frames = yield* turn("huge", `/huge ${mebibytes}MB`)
      const took = performance.now() - began
      const calls = frames.filter(Sse.isEvent("call.completed")).map(({ data }) => data.data)
      const spill = spillIn(frames)
      assert.strictEqual(spill, sourceDigest())
      const downloaded = yield* download("huge", spill)
      const after = yield* memory

      assert.strictEqual(downloaded, spill)
      const shown = (calls[0]?.["modelView"] as { readonly text: string } | undefined)?.text ?? ""
      assert.isAtMost(shown.length, ToolOutput.defaultLimits.cap)
      assert.include(shown, `${mebibytes * 1024 * 1024} bytes in ${lines} lines`)
      const middle = lines / 2
      assert.deepStrictEqual(calls[1]?.["output"], {
        matches: 1,
        lines: [{ line: middle, text: DemoOutput.line(middle).trimEnd() }],
        truncated: false
      })
      const growth = (Math.max(after.max, after.now) - before.now) / 1024
      console.log(
        `${mebibytes} MiB: memory ${Math.round(before.now / 1024)} MiB + ${Math.round(growth)} MiB at the most; ` +
          `the Turn took ${Math.round(took)} ms, spill_grep ${Math.round(Number(calls[1]?.["ms"]))} ms of them`
      )
      assert.isBelow(growth, 64)
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer)),
  { timeout: 240_000 }
)
