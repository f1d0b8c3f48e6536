/**
 * `fetch` for a provider package: a redirect is an error, and so is a line of a response that does not end.
 *
 * A redirected request would take the API key and the prompt to an address that nobody configured; `fetch` on its own removes
 * `authorization`, and no other header a provider reads its key from. A package holds a line until it has ended, so one without
 * end would fill the memory before any part of the answer is told.
 */
import * as AiError from "effect/ai/AiError"
import * as AnswerSize from "./AnswerSize.ts"

/**
 * For the `fetch` setting of a provider package: as `globalThis.fetch`, failing with `InvalidRequestError` on a redirect, and with
 * `AnswerSize.tooLarge` in the body where a line is too long.
 */
export const fetch: typeof globalThis.fetch = async (input, init) => {
  const response = await globalThis.fetch(input, { ...init, redirect: "manual" })
  const location = response.headers.get("location")
  if (response.status < 300 || response.status > 399 || location === null) return bounded(response)
  await response.body?.cancel()
  const target = URL.parse(location, response.url)
  throw new AiError.InvalidRequestError({
    description:
      `The provider's address redirects (HTTP ${response.status}) to ${target?.origin ?? "another address"}. ` +
      "Nothing was sent there. Configure that address as the base URL if it is the right one."
  })
}

/** The response with a body that fails when a line of it is longer than is held. */
const bounded = (response: Response): Response => {
  if (response.body === null) return response
  let length = 0
  const limit = new TransformStream<Uint8Array, Uint8Array>({
    transform: (bytes, controller) => {
      const end = bytes.lastIndexOf(lineFeed)
      length = end < 0 ? length + bytes.length : bytes.length - end - 1
      if (length <= AnswerSize.mostHeld) return controller.enqueue(bytes)
      controller.error(AnswerSize.tooLarge(`a line of the response is longer than ${AnswerSize.mostHeld} bytes`))
    }
  })
  const { headers, status, statusText } = response
  return new Response(response.body.pipeThrough(limit), { headers, status, statusText })
}

const lineFeed = 10
