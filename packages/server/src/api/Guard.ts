/**
 * What every endpoint under `/api` can answer besides its own: declared once, for clients and for the documentation.
 *
 * Owns: the declaration. Does not own: the checks (`http/Gate` before routing, `http/Guard` around each endpoint).
 */
import * as HttpApiMiddleware from "effect/http-api/HttpApiMiddleware"
import * as Context from "effect/Context"
import * as ApiError from "./ApiError.ts"

/** Bytes the body of an endpoint may have; most have nothing long to say. */
export const bodyBytes = 1024 * 1024
export const BodyLimit = Context.Reference<number>("server/BodyLimit", { defaultValue: () => bodyBytes })

/** Bytes a body with a history may have. */
export const historyBytes = 16 * 1024 * 1024

export class Guard extends HttpApiMiddleware.Service<Guard>()("server/Guard", {
  error: [400, 401, 403, 421, 500, 503].map((status) => ApiError.at(status as 400))
}) {}
