import { cuts } from "@turnstep/core/CrashPoint"
import * as SplitBrain from "./SplitBrain.ts"

SplitBrain.suite("tool-finished", "after-ack", true)

for (const boundary of ["turn-opened", "tool-started", "result-recorded", "turn-closed"] as const) {
  for (const cut of cuts) SplitBrain.suite(boundary, cut, false)
}
