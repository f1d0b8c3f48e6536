/**
 * What this server says of itself (`GET /api/info`).
 */
import * as Context from "effect/Context"
import type { Info } from "../api/Body.ts"

export class About extends Context.Service<About, Info>()("server/About") {}
