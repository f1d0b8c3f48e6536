// The least a runtime can do that never asks for an answer twice and knows which tools it has started.
import { make } from "./raw-pg.mjs"

export default make("raw loop + PostgreSQL, two commits per step (answer, then results)", 2)
