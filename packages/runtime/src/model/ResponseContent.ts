/**
 * The content of a whole response, from the parts of its stream.
 *
 * Owns: joining deltas to blocks in the order in which the blocks began. Does
 * not own: whether the stream was whole.
 */
import type * as Response from "effect/ai/Response"

/** Joins the parts of a finished stream. */
export const fromStream = (parts: ReadonlyArray<Response.StreamPartEncoded>): Array<Response.PartEncoded> => {
  const content: Array<Response.PartEncoded> = []
  const blocks = new Map<string, { readonly at: number; text: string; metadata: Response.ProviderMetadata }>()
  for (const part of parts) {
    switch (part.type) {
      case "text-start":
      case "reasoning-start":
        blocks.set(part.id, { at: content.length, text: "", metadata: part.metadata ?? {} })
        content.push({ type: part.type === "text-start" ? "text" : "reasoning", text: "" })
        break
      case "text-delta":
      case "reasoning-delta":
      case "text-end":
      case "reasoning-end": {
        const block = blocks.get(part.id)
        const started = block === undefined ? undefined : content[block.at]
        if (block === undefined || (started?.type !== "text" && started?.type !== "reasoning")) break
        if ("delta" in part) block.text += part.delta
        block.metadata = merge(block.metadata, part.metadata ?? {})
        content[block.at] = { type: started.type, text: block.text, metadata: block.metadata }
        break
      }
      case "tool-params-start":
      case "tool-params-delta":
      case "tool-params-end":
      case "error":
        break
      default:
        content.push(part)
    }
  }
  return content
}

// a provider may tell its metadata piece by piece: a signature comes after the text
const merge = (left: Response.ProviderMetadata, right: Response.ProviderMetadata): Response.ProviderMetadata => ({
  ...left,
  ...Object.fromEntries(
    Object.entries(right).map(([provider, value]) => {
      const before = left[provider]
      return [provider, isObject(before) && isObject(value) ? { ...before, ...value } : value]
    })
  )
})

const isObject = (value: unknown): value is object =>
  typeof value === "object" && value !== null && !Array.isArray(value)
