/**
 * The tool calls of one response while their pieces arrive.
 *
 * Owns: which piece belongs to which call, and every call's id. Does not own:
 * what the arguments mean (`ToolArguments`) or when a call may be shown as whole
 * (`ChatDecoder`).
 *
 * - C1. Ids are non-empty and unique within the response, whatever the provider sent.
 * - C2. A call's id never changes once a part has named it.
 */
import * as ToolArguments from "@turnstep/core/history/ToolArguments"
import type { ChatPart } from "./ChatPart.ts"

/** One call. */
export interface Slot {
  /** Id in the parts; `undefined` until the name is known. */
  id: string | undefined
  name: string
  text: string
  readonly index: number | undefined
  wireId: string | undefined
}

/** The calls of one response. */
export interface ToolCallSlots {
  readonly slots: ReadonlyArray<Slot>
  /** Takes the `tool_calls` of one delta and appends the parts that tell of it. */
  readonly take: (deltas: ReadonlyArray<unknown>, out: Array<ChatPart>) => void
  /** Gives nameless calls their id and closes the parameters of all. */
  readonly close: (out: Array<ChatPart>) => void
}

/** No calls yet. `responseId` makes minted ids differ between responses. */
export const make = (responseId: () => string | undefined): ToolCallSlots => {
  const slots: Array<Slot> = []
  const taken = new Set<string>()

  const mint = (position: number): string => {
    const suffix = responseId()
      ?.replace(/[^A-Za-z0-9]/g, "")
      .slice(-12) // legal for every provider
    const base = suffix ? `call_${position}_${suffix}` : `call_${position}`
    let id = base
    for (let n = 2; taken.has(id); n++) id = `${base}_${n}`
    return id
  }

  const open = (slot: Slot, out: Array<ChatPart>): string => {
    const id = slot.wireId === undefined || taken.has(slot.wireId) ? mint(slots.indexOf(slot)) : slot.wireId // C1
    slot.id = id
    taken.add(id)
    out.push({ type: "tool-params-start", id, name: slot.name })
    if (slot.text !== "") out.push({ type: "tool-params-delta", id, delta: slot.text })
    return id
  }

  const takeOne = (delta: unknown, out: Array<ChatPart>): void => {
    const piece = read(delta)
    if (piece === undefined) return
    let slot = find(slots, piece)
    if (slot === undefined) {
      slot = { id: undefined, name: "", text: "", index: piece.index, wireId: piece.id }
      slots.push(slot)
    }
    slot.wireId ??= piece.id
    if (slot.name === "") slot.name = piece.name // repeated or empty in later pieces
    slot.text += piece.text
    if (slot.id !== undefined) {
      if (piece.text !== "") out.push({ type: "tool-params-delta", id: slot.id, delta: piece.text }) // C2
    } else if (slot.name !== "") {
      open(slot, out)
    }
  }

  return {
    slots,
    take: (deltas, out) => deltas.forEach((delta) => takeOne(delta, out)),
    close: (out) => {
      for (const slot of slots) out.push({ type: "tool-params-end", id: slot.id ?? open(slot, out) })
    }
  }
}

interface Piece {
  readonly index: number | undefined
  readonly id: string | undefined
  readonly name: string
  readonly text: string
}

const find = (slots: ReadonlyArray<Slot>, piece: Piece): Slot | undefined => {
  if (piece.index === undefined && piece.id === undefined) {
    const last = slots.at(-1)
    return piece.name === "" || (last !== undefined && isUnfinished(last, piece)) ? last : undefined
  }
  const found =
    piece.index === undefined
      ? slots.findLast((slot) => slot.wireId === piece.id)
      : slots.findLast((slot) => slot.index === piece.index)
  return found !== undefined && isAnother(found, piece) ? undefined : found
}

// Neither index nor id, but a name: a whole call, unless it repeats the name of the one being written.
const isUnfinished = (slot: Slot, piece: Piece): boolean =>
  slot.name === piece.name && slot.text !== "" && !ToolArguments.isComplete(slot.text)

// Some servers give every call of a batch index 0, or the same id: a name on top of finished arguments is a new call.
const isAnother = (slot: Slot, piece: Piece): boolean =>
  piece.name !== "" &&
  (piece.index === undefined ? piece.text !== "" : piece.id !== undefined && piece.id !== slot.wireId) &&
  ToolArguments.isComplete(slot.text)

const read = (delta: unknown): Piece | undefined => {
  if (typeof delta !== "object" || delta === null) return undefined
  const { function: fn, id, index } = delta as { readonly [field: string]: unknown }
  const { arguments: args, name } = (typeof fn === "object" && fn !== null ? fn : {}) as {
    readonly [field: string]: unknown
  }
  return {
    index: typeof index === "number" ? index : undefined,
    id: typeof id === "string" && id.trim() !== "" ? id : undefined,
    name: typeof name === "string" ? name : "",
    text: typeof args === "string" ? args : typeof args === "object" && args !== null ? JSON.stringify(args) : ""
  }
}
