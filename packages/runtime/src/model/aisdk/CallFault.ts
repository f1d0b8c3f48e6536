/**
 * Errors of the AI SDK in the words of `effect/ai`.
 *
 * Owns: which class means what. Does not own: what a refusal means
 * (`ProviderRefusal`).
 */
import * as Provider from "@ai-sdk/provider"
import * as AiError from "effect/ai/AiError"
import * as ContentRefusal from "../ContentRefusal.ts"
import * as ProviderRefusal from "../ProviderRefusal.ts"

/** The reason for whatever `doStream` or its stream threw or told. */
export const toReason = (error: unknown, context: ProviderRefusal.Context): AiError.AiErrorReason => {
  if (AiError.isAiErrorReason(error)) return error
  const description = context.scrub(messageOf(error)).toWellFormed().slice(0, 2_000)
  if (Provider.APICallError.isInstance(error)) {
    if (error.statusCode === undefined || error.statusCode < 400) return transport(description, error.url)
    const { responseBody, responseHeaders, statusCode } = error
    const refusal = { status: statusCode, headers: responseHeaders ?? {}, body: responseBody ?? error.message }
    return ProviderRefusal.toReason(refusal, context)
  }
  if (Provider.LoadAPIKeyError.isInstance(error))
    return new AiError.AuthenticationError({ kind: "MissingKey", description })
  if (
    Provider.InvalidPromptError.isInstance(error) ||
    Provider.InvalidArgumentError.isInstance(error) ||
    Provider.UnsupportedFunctionalityError.isInstance(error)
  ) {
    const content = ContentRefusal.kindOf({ codes: [], text: description })
    const constraint = content === undefined ? {} : { constraint: ContentRefusal.constraintOf(content) }
    return new AiError.InvalidRequestError({ description, ...constraint })
  }
  if (Provider.TypeValidationError.isInstance(error)) return new AiError.InvalidResponseError({ description })
  if (Provider.JSONParseError.isInstance(error)) return new AiError.InternalProviderError({ description })
  if (Provider.EmptyResponseBodyError.isInstance(error)) return transport(description)
  if (error instanceof Error) {
    return isTransport(error) ? transport(description) : new AiError.UnknownError({ description })
  }
  return ProviderRefusal.toReason({ status: undefined, headers: {}, body: error }, context) // told inside the stream
}

/** The connection failed. */
export const transport = (description: string, url = ""): AiError.NetworkError =>
  new AiError.NetworkError({ reason: "TransportError", method: "POST", url: shown(url), description })

const shown = (url: string): string => {
  if (!URL.canParse(url)) return ""
  const { origin, pathname } = new URL(url) // a query may carry a key
  return origin + pathname
}

// `fetch` throws TypeErrors whose cause is the socket's trouble.
const isTransport = (error: Error): boolean => {
  const texts = [error, error.cause].map((e) => `${codeOf(e)} ${messageOf(e)}`).join(" ")
  return /ECONN|EPIPE|ETIMEDOUT|ENOTFOUND|EAI_AGAIN|UND_ERR|terminated|fetch failed|socket|network|aborted/i.test(texts)
}

const codeOf = (error: unknown): string => {
  const code: unknown = typeof error === "object" && error !== null ? Reflect.get(error, "code") : undefined
  return typeof code === "string" ? code : ""
}

const messageOf = (error: unknown): string => {
  if (typeof error === "string") return error
  const message: unknown = typeof error === "object" && error !== null ? Reflect.get(error, "message") : undefined
  return typeof message === "string" ? message : (JSON.stringify(error) ?? "")
}
