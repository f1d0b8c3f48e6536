import { assert, describe, it } from "@effect/vitest"
import type { Json } from "@turnstep/core/Canonical"
import * as Noise from "@turnstep/core/Noise"

const isSame = (a: Json, b: Json): boolean => JSON.stringify(Noise.mask(a)) === JSON.stringify(Noise.mask(b))

describe("Noise", () => {
  it.each<[string, Json, Json]>([
    ["ISO times", "saved 2026-01-02T03:04:05.678Z", "saved 2026-01-02T03:05:11+02:00"],
    ["log lines", "2026-01-02 03:04:05,123 ERROR no such table", "2026-01-02 03:09:05,007 ERROR no such table"],
    ["times of HTTP", "Fri, 02 Jan 2026 03:04:05 GMT: 404", "Fri, 02 Jan 2026 03:04:09 GMT: 404"],
    ["seconds and milliseconds since the epoch", { at: 1_767_322_000 }, { at: 1_767_322_031 }],
    ["UUIDs", "job 0b7c1f3e-1111-4222-8333-944455566677", "job 5d2a9c00-aaaa-4bbb-8ccc-9ddddeeeefff"],
    ["digests", "commit 1f3e5a7c9b1d3f5a7c9e", "commit 99aabbccddeeff001122"],
    ["ids with a prefix", "error req_8Kd03mQzT1", "error req_1aZz90PpQ2"],
    ["times in names of files", "_logs/2026-01-02T03_04_05_678Z-debug.log", "_logs/2026-01-02T03_09_11_002Z-debug.log"],
    ["measured seconds", "FAIL\tsum\t0.004s", "FAIL\tsum\t0.011s"],
    ["how long it took", "2 failed in 1.31s", "2 failed in 1.28s"],
    [
      "members named as ids and times",
      { request_id: "8f3kd92ka", created_at: "now" },
      { request_id: "0aa11bb22", created_at: "then" }
    ],
    ["values inside lists", [{ timestamp: 1, ok: true }], [{ timestamp: 2, ok: true }]]
  ])("does not see %s", (_, a, b) => assert.isTrue(isSame(a, b)))

  it.each<[string, Json, Json]>([
    ["a count", "3 of 10 done", "4 of 10 done"],
    ["a share", { progress: 40 }, { progress: 41 }],
    ["how long it has been", "still building after 60 s", "still building after 120 s"],
    ["an elapsed time", "running, 10 s elapsed", "running, 20 s elapsed"],
    ["a number under id", { task_id: 7 }, { task_id: 8 }],
    ["a date", "due 2026-01-02", "due 2026-01-03"],
    ["a name", "hello_world", "hello_there"],
    ["an error's line", "error at line 12", "error at line 13"],
    ["a version", "1.2.3", "1.2.4"],
    ["which output a spill holds", { bytes: 9, spill: "0".repeat(64) }, { bytes: 9, spill: "1".repeat(64) }],
    ["a member more", { ok: true }, { ok: true, id: "8f3kd92ka" }]
  ])("sees %s", (_, a, b) => assert.isFalse(isSame(a, b)))

  it("takes a megabyte of anything in a moment", () => {
    for (const piece of ["a", "0", "_", "12:", "in ", "ab_", "2026-01-"]) {
      Noise.maskText(piece.repeat(Math.ceil(1_000_000 / piece.length)))
    }
  })
})
