/**
 * The tool calls of one response while their pieces arrive.
 *
 * Owns: which piece belongs to which call, and every call's id. Does not own: what the arguments mean (`ToolArguments`) or when
 * a call may be told as whole (`ChatDecoder`).
 *
 * - C1. Ids are non-empty and unique within the response, whatever the provider sent.
 * - C2. A call's id never changes once a part has named it.
 * - C3. Pieces of two calls never become one call that can run. Where the pieces allow two readings, the call is `unclear`, and
 *   a call without arguments is unclear when pieces are left over that may be its arguments.
 */
import * as ChatOpaque from "@turnstep/core/history/codecs/ChatOpaque"
import type { JsonObject } from "@turnstep/core/history/Json"
import type { ChatPart } from "./ChatPart.ts"
import * as Members from "./Members.ts"

/** One call. */
export interface Slot {
  /** Id in the parts; `undefined` until a part has named it. */
  id: string | undefined
  name: string
  text: string
  index: number | undefined
  wireId: string | undefined
  /** Its pieces may be those of another call (C3). */
  isUnclear: boolean
  /** Without arguments it may be a piece of a call before or behind it (C3). */
  needsArguments: boolean
  /** Members that must go back with the call. */
  readonly members: Members.Members
  /** Reads the arguments as they grow. */
  readonly object: ObjectScan
}

/** The calls of one response. */
export interface ToolCallSlots {
  readonly slots: ReadonlyArray<Slot>
  /** Takes the `tool_calls` of one delta and appends the parts that tell of it; gives the characters that are held of it. */
  readonly take: (deltas: ReadonlyArray<unknown>, out: Array<ChatPart>) => number
  /** Gives calls without an id theirs, judges what is left over (C3) and closes the parameters of all. */
  readonly close: (out: Array<ChatPart>) => void
}

/** No calls yet. `responseId` makes minted ids differ between responses. */
export const make = (responseId: () => string | undefined): ToolCallSlots => {
  const known: Known = { slots: [], byIndex: new Map(), byId: new Map() }
  const { slots } = known
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

  const takeOne = (delta: unknown, out: Array<ChatPart>): number => {
    const piece = read(delta)
    if (piece === undefined) return 0
    const slot = place(known, piece)
    if (slot === undefined) return 0
    const added = absorb(known, slot, piece)
    if (slot.id !== undefined) {
      if (added !== "") out.push({ type: "tool-params-delta", id: slot.id, delta: added }) // C2
    } else if (slot.name !== "" && slot.text !== "") {
      open(slot, out) // the name may come in pieces until the first arguments
    }
    return added.length + piece.name.length + (isBare(piece.members) ? 0 : JSON.stringify(piece.members).length)
  }

  return {
    slots,
    take: (deltas, out) => deltas.reduce<number>((held, delta) => held + takeOne(delta, out), 0),
    close: (out) => {
      const isLeftOver = slots.some((slot) => slot.name === "" || (!isBlank(slot.text) && !slot.object.isWhole()))
      for (const slot of slots) {
        if ((isLeftOver || slot.needsArguments) && isBlank(slot.text)) slot.isUnclear = true // C3
        out.push({ type: "tool-params-end", id: slot.id ?? open(slot, out) })
      }
    }
  }
}

interface Piece {
  readonly index: number | undefined
  readonly id: string | undefined
  readonly name: string
  readonly text: string
  /** The arguments came as an empty object: they may be a stand-in for those to come. */
  readonly isStandIn: boolean
  readonly members: JsonObject
}

/** The calls so far, and those of an index or an id: thousands of calls must not be searched for every piece. */
interface Known {
  readonly slots: Array<Slot>
  readonly byIndex: Map<number, Array<Slot>>
  readonly byId: Map<string, Array<Slot>>
}

const note = <K>(slots: Map<K, Array<Slot>>, key: K, slot: Slot): K => {
  const others = slots.get(key)
  if (others === undefined) slots.set(key, [slot])
  else others.push(slot)
  return key
}

const empty = (): Slot => ({
  id: undefined,
  name: "",
  text: "",
  index: undefined,
  wireId: undefined,
  isUnclear: false,
  needsArguments: false,
  members: Members.make(),
  object: objectScan()
})

/** Adds a piece to its call; the text that is new in its arguments. */
const absorb = ({ byId, byIndex }: Known, slot: Slot, piece: Piece): string => {
  if (slot.wireId === undefined && piece.id !== undefined) slot.wireId = note(byId, piece.id, slot)
  if (slot.index === undefined && piece.index !== undefined) slot.index = note(byIndex, piece.index, slot)
  slot.members.take(piece.members)
  if (slot.name === "") slot.name = piece.name
  else if (slot.text === "" && piece.name !== slot.name) slot.name += piece.name
  if (piece.text === "" || piece.isStandIn) return ""
  if (slot.object.isWhole() && piece.text.trim() === slot.text.trim()) return "" // told once more
  slot.text += piece.text
  slot.object.take(piece.text)
  return piece.text
}

/** The call that a piece belongs to, or a new one. */
const place = (known: Known, piece: Piece): Slot | undefined => {
  const slot = candidate(known, piece)
  const relation = slot === undefined ? "another" : relationOf(slot, piece)
  if (slot !== undefined && relation === "same") return slot
  if (piece.id === undefined && piece.name === "" && piece.text === "") return undefined // it says nothing
  if (slot !== undefined && relation === "either") {
    if (isBlank(slot.text)) slot.needsArguments = true // C3
    else slot.isUnclear = true
  }
  const made = empty()
  made.needsArguments = relation === "again" || relation === "either"
  made.isUnclear = relation === "again" && !isBlank(piece.text)
  known.slots.push(made)
  return made
}

/** The call a piece is most likely a part of, by its place, its id or its name. */
const candidate = ({ byId, byIndex, slots }: Known, { id, index, name, text }: Piece): Slot | undefined => {
  const likeliest = (among: ReadonlyArray<Slot>): Slot | undefined =>
    among.findLast((slot) => slot.name === name) ?? among.at(-1)
  const last = slots.at(-1)
  const withId = id === undefined ? [] : (byId.get(id) ?? [])
  if (index !== undefined) {
    const placed = byIndex.get(index) ?? []
    const byPlace = slots[index]?.index === undefined ? slots[index] : undefined
    return (
      likeliest(placed.filter((slot) => withId.includes(slot))) ?? likeliest(placed) ?? likeliest(withId) ?? byPlace
    )
  }
  if (withId.length > 0) return likeliest(withId)
  if (id === undefined) {
    return name === "" || last?.name === "" ? last : slots.findLast((slot) => slot.name === name)
  }
  // Without a place an id tells calls apart, unless one of two with the same name has none or no arguments: some servers name an
  // id late, or make one up for every piece.
  const isDoubtful = (slot: Slot): boolean =>
    name !== "" && slot.name === name && (slot.wireId === undefined || isBlank(text) || isBlank(slot.text))
  return slots.findLast(isDoubtful) ?? (last?.wireId === undefined ? last : undefined)
}

/**
 * Relation of a piece to the call it may belong to. `either`: the call so far may be whole or not, so the piece begins another
 * one and the call is unclear. `again`: a whole call came twice, or is meant twice; the second one is unclear.
 */
const relationOf = (slot: Slot, piece: Piece): "same" | "another" | "either" | "again" => {
  const isIdKnown = piece.id !== undefined && slot.wireId !== undefined
  const isSameId = !isIdKnown || piece.id === slot.wireId
  const isElsewhere = piece.index !== undefined && slot.index !== undefined && piece.index !== slot.index
  const isSamePlace = !isElsewhere && (piece.index !== undefined || isIdKnown)
  const isWhole = slot.object.isWhole()
  if (piece.name === "") {
    if (isElsewhere && isSameId && (isWhole || slot.text === "")) return isWhole ? "another" : "either"
    if (isSameId) return "same"
    // Some servers make up an id for every piece. Behind whole arguments it is the id of another call, whose name comes late.
    return piece.index !== undefined && !isWhole ? "same" : "another"
  }
  if (slot.name === "") return isSameId && !isElsewhere ? "same" : "another"
  if (piece.name !== slot.name) return isSameId && isSamePlace && slot.text === "" ? partOfName(slot, piece) : "another"
  const isEmpty = isBlank(piece.text)
  const isTold = isEmpty || piece.text.trim() === slot.text.trim()
  if (!isSameId) return slot.text === "" ? "either" : !isWhole ? "same" : isTold ? "again" : "another"
  if (slot.text === "") return isSamePlace ? "same" : "either"
  if (!isWhole) return "same"
  if (isTold && isSamePlace && (isIdKnown || isEmpty)) return "same"
  if (isTold) return isIdKnown && !isEmpty ? "another" : "again"
  return isSamePlace && slot.object.isBlank() ? "either" : "another"
}

/** Another name for the same call, before its arguments: the rest of the name, unless it holds the one before. */
const partOfName = (slot: Slot, piece: Piece): "same" | "either" =>
  piece.name.startsWith(slot.name) ? "either" : "same"

const isBare = (members: JsonObject): boolean => Object.keys(members).length === 0

const isBlank = (text: string): boolean => text.trim() === ""

/** Follows the text of an object without reading it anew with every piece. */
interface ObjectScan {
  readonly take: (text: string) => void
  /** The object that began has ended, and nothing but blanks came behind it. */
  readonly isWhole: () => boolean
  /** The object is whole and has no members. */
  readonly isBlank: () => boolean
}

const objectScan = (): ObjectScan => {
  let depth = 0
  let isInText = false
  let isEscaped = false
  let hasMembers = false
  let state: "before" | "in" | "whole" | "over" = "before"
  const inside = (code: number): void => {
    if (isInText) {
      if (isEscaped) isEscaped = false
      else if (code === backslash) isEscaped = true
      else if (code === quote) isInText = false
      return
    }
    if (code === closingBrace || code === closingBracket) {
      if (--depth === 0) state = "whole"
      return
    }
    hasMembers = true
    if (code === quote) isInText = true
    else if (code === openingBrace || code === openingBracket) depth++
  }
  return {
    take: (text) => {
      for (let at = 0; at < text.length; at++) {
        const code = text.charCodeAt(at)
        if (isSpace(code) && !isInText) continue
        if (state === "in") inside(code)
        else if (state === "before" && code === openingBrace) {
          state = "in"
          depth = 1
        } else state = "over"
      }
    },
    isWhole: () => state === "whole",
    isBlank: () => state === "whole" && !hasMembers
  }
}

const [quote, backslash, openingBrace, closingBrace, openingBracket, closingBracket] = [
  0x22, 0x5c, 0x7b, 0x7d, 0x5b, 0x5d
]

/** The blanks of JSON. */
const isSpace = (code: number): boolean => code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09

const read = (delta: unknown): Piece | undefined => {
  if (typeof delta !== "object" || delta === null) return undefined
  const { function: fn, id, index } = delta as { readonly [field: string]: unknown }
  const { arguments: args, name } = (typeof fn === "object" && fn !== null ? fn : {}) as {
    readonly [field: string]: unknown
  }
  const isObject = typeof args === "object" && args !== null
  return {
    index: typeof index === "number" ? index : undefined,
    id: typeof id === "string" && id.trim() !== "" ? id : undefined,
    name: typeof name === "string" ? name : "",
    text: typeof args === "string" ? args : isObject ? JSON.stringify(args) : "",
    isStandIn: isObject && Object.keys(args).length === 0,
    members: ChatOpaque.membersOf(delta as JsonObject, ChatOpaque.callMembers)
  }
}
