// The same with a tool that says it only reads: it runs while its answer is being committed.
import * as Tool from "effect/ai/Tool"
import { make } from "./turnstep-pg.mjs"

export default make("Turnstep library, PostgreSQL, tools that only read", (tool) => tool.annotate(Tool.Readonly, true))
