/**
 * The wire a model speaks: in which format its requests leave, and whose contract they must keep.
 *
 * Model layers of this package provide it beside the model, with the very encoder their client sends with. An application
 * that brings a model of its own may provide one; without it a request is judged as messages of the AI SDK, whose rules about
 * calls and results all providers share.
 *
 * Owns: what is known of a wire. Does not own: the check (`core/history/RequestGate`).
 */
import * as AiSdkModel from "@turnstep/core/history/codecs/AiSdkModel"
import type * as RequestGate from "@turnstep/core/history/RequestGate"
import * as Context from "effect/Context"

export const Wire = Context.Reference<RequestGate.Wire>("runtime/model/Wire", {
  defaultValue: () => unknown
})

const unknown: RequestGate.Wire = {
  format: "ai-sdk-model",
  contract: {},
  write: (message) => AiSdkModel.write(message, AiSdkModel.jsonData)
}
