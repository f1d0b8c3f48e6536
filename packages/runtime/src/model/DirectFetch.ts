/**
 * `fetch` for a provider package: a redirect is an error.
 *
 * A redirected request would take the API key and the prompt to an address that nobody configured; `fetch` on its own removes
 * `authorization`, and no other header a provider reads its key from.
 */
import * as AiError from "effect/ai/AiError"

/** For the `fetch` setting of a provider package: as `globalThis.fetch`, failing with `InvalidRequestError` on a redirect. */
export const fetch: typeof globalThis.fetch = async (input, init) => {
  const response = await globalThis.fetch(input, { ...init, redirect: "manual" })
  const location = response.headers.get("location")
  if (response.status < 300 || response.status > 399 || location === null) return response
  await response.body?.cancel()
  const target = URL.parse(location, response.url)
  throw new AiError.InvalidRequestError({
    description:
      `The provider's address redirects (HTTP ${response.status}) to ${target?.origin ?? "another address"}. ` +
      "Nothing was sent there. Configure that address as the base URL if it is the right one."
  })
}
