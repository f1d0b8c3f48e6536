/**
 * The typed client of the API.
 *
 * ```ts
 * const client = yield* Client.make({ baseUrl: "http://127.0.0.1:4199", token })
 * const { data } = yield* client.sessions.list({ query: {} })
 * ```
 *
 * Refusals are `ApiError`s with a `code` and a `hint`. Needs an `HttpClient`, such as `FetchHttpClient.layer`.
 */
import * as Effect from "effect/Effect"
import * as HttpApiClient from "effect/http-api/HttpApiClient"
import * as HttpClient from "effect/http/HttpClient"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import type * as Redacted from "effect/Redacted"
import { Api } from "./Api.ts"

export type Client = HttpApiClient.ForApi<typeof Api>

/** A client of the server at `baseUrl`. */
export const make = (options: {
  readonly baseUrl: string
  readonly token: Redacted.Redacted | string
}): Effect.Effect<Client, never, HttpClient.HttpClient> =>
  HttpApiClient.make(Api, {
    baseUrl: options.baseUrl,
    transformClient: HttpClient.mapRequest(HttpClientRequest.bearerToken(options.token))
  })
