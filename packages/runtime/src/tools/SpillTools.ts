/**
 * `spill_read` and `spill_grep`: looking into outputs that were too large to show, kept as spills or in the record.
 *
 * An agent has them without asking when its runtime has a spill store (`Agent`).
 *
 * Owns: what the tools are called, take and answer. Does not own: the search (`spill/SpillSearch`).
 *
 * - G1. A session sees its own spills only: whose call it is says the runtime, never the model.
 * - G2. An answer is bounded, whatever is asked for, and says where to go on.
 * - G3. A search takes a task process for a piece at a time (`SpillTask`): other sessions have it between two pieces.
 */
import { CallId } from "@turnstep/core/Ids"
import * as SpillStore from "@turnstep/core/SpillStore"
import * as ToolPolicy from "@turnstep/core/ToolPolicy"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as OffThread from "../offthread/OffThread.ts"
import * as SpillSearch from "../spill/SpillSearch.ts"
import { ToolCall } from "../ToolCall.ts"
import type * as SpillTask from "./SpillTask.ts"
import * as TextPattern from "./TextPattern.ts"

/** The pattern cannot be used; `message` is written for the model. */
export class PatternRefused extends Schema.TaggedError<PatternRefused>()("PatternRefused", {
  pattern: Schema.String,
  message: Schema.String
}) {}

const Count = Schema.Int.check(Schema.isGreaterThanOrEqualTo(1))
const SpillName = Schema.String.annotate({
  description: "The spill's name: 64 hexadecimal digits, or cal_… for the result of a call that was shown shorter."
})

/** Characters an answer of `spill_read` has at most (G2). */
export const maxText = 20_000

/** Reads a part of a spill. */
export const SpillRead = Tool.make("spill_read", {
  description:
    "Read a part of a large output that was kept as a spill: lines (startLine, endLine, counted from 1) or bytes " +
    `(offset, length). At most ${maxText} characters are given; nextLine or nextOffset says where to go on.`,
  parameters: Schema.Struct({
    spill: SpillName,
    startLine: Schema.optionalKey(Count.annotate({ description: "First line; default 1." })),
    endLine: Schema.optionalKey(Count.annotate({ description: "Last line, included; default: as many as fit." })),
    offset: Schema.optionalKey(
      Schema.Int.check(Schema.isGreaterThanOrEqualTo(0)).annotate({ description: "First byte, counted from 0." })
    ),
    length: Schema.optionalKey(Count.annotate({ description: "Bytes; default: as many as fit." }))
  }),
  success: Schema.Struct({
    text: Schema.String,
    lines: Schema.Int.annotate({ description: "Lines in the whole spill" }),
    bytes: Schema.Int.annotate({ description: "Bytes of the whole spill" }),
    endLine: Schema.optionalKey(Schema.Int.annotate({ description: "Last line given" })),
    nextLine: Schema.optionalKey(Schema.Int),
    nextOffset: Schema.optionalKey(Schema.Int)
  }),
  failure: SpillStore.SpillNotFound,
  failureMode: "return"
})
  .annotate(Tool.Readonly, true)
  .annotate(ToolPolicy.Output, "exempt")

/** Searches a spill. */
export const SpillGrep = Tool.make("spill_grep", {
  description:
    "Search a large output that was kept as a spill, line by line, for a regular expression (JavaScript syntax) or, with " +
    "literal: true, for a fixed text. Gives the first matching lines with their numbers, and how many there are in all.",
  parameters: Schema.Struct({
    spill: SpillName,
    pattern: Schema.String.check(Schema.isNonEmpty(), Schema.isMaxLength(1000)),
    literal: Schema.optionalKey(
      Schema.Boolean.annotate({ description: "Take the pattern as fixed text; default false." })
    ),
    caseSensitive: Schema.optionalKey(Schema.Boolean.annotate({ description: "Default true." })),
    startLine: Schema.optionalKey(Count.annotate({ description: "First line to look at; default 1." })),
    limit: Schema.optionalKey(Count.annotate({ description: "Matching lines to give; default 40, at most 80." }))
  }),
  success: Schema.Struct({
    matches: Schema.Int.annotate({ description: "Matching lines from startLine on" }),
    lines: Schema.Array(Schema.Struct({ line: Schema.Int, text: Schema.String })),
    truncated: Schema.Boolean.annotate({ description: "True if `lines` does not hold all matching lines" })
  }),
  failure: Schema.Union([SpillStore.SpillNotFound, PatternRefused, OffThread.WorkStopped]),
  failureMode: "return"
})
  .annotate(Tool.Readonly, true)
  .annotate(ToolPolicy.Output, "exempt")

export const toolkit = Toolkit.make(SpillRead, SpillGrep)

/** The spill of a call's own session (G1), or what another call of it was answered. */
const opened = Effect.fnUntraced(function* (spill: string) {
  const store = yield* SpillStore.SpillStore
  const call = yield* ToolCall
  if (store === undefined || call === undefined) return yield* SpillStore.notFound(spill)
  if (isCallId(spill)) {
    const text = yield* call.recorded(spill)
    if (text === undefined) return yield* SpillStore.notFound(spill)
    const memory = SpillStore.makeMemory({ quota: Infinity })
    const { id } = yield* Effect.orDie(memory.write(call.sessionId, Stream.make(Buffer.from(text))))
    return { store: memory, sessionId: call.sessionId, kept: yield* memory.find(call.sessionId, id) }
  }
  const kept = yield* store.find(call.sessionId, spill)
  return { store, sessionId: call.sessionId, kept }
})

const spillRead = Effect.fn("SpillTools.read")(function* (params: Tool.Parameters<typeof SpillRead>) {
  const { kept, sessionId, store } = yield* opened(params.spill)
  const whole = { lines: kept.lines, bytes: kept.bytes }
  if (params.offset !== undefined || params.length !== undefined) {
    const start = Math.min(params.offset ?? 0, kept.bytes)
    const most = Math.min(kept.bytes, start + Math.min(params.length ?? maxText, maxText))
    const bytes = Buffer.concat(yield* Stream.runCollect(store.read(sessionId, kept.id, { start, end: most })))
    const given = most < kept.bytes ? wholeCharacters(bytes) : bytes
    const end = start + given.length
    return { text: decoder.decode(given), ...whole, ...(end < kept.bytes ? { nextOffset: end } : {}) }
  }
  const startLine = params.startLine ?? 1
  const wanted = { startLine, endLine: params.endLine ?? kept.lines, room: maxText }
  const { endLine, text } = yield* SpillSearch.lines(store, sessionId, kept, wanted)
  return { text, ...whole, endLine, ...(endLine < kept.lines ? { nextLine: endLine + 1 } : {}) }
})

const none: TextPattern.Matches = { count: 0, first: [] }

const searchPiece = OffThread.task<typeof SpillTask.search>(import.meta.url, "./SpillTask", "search")

const spillGrep = Effect.fnUntraced(function* (params: Tool.Parameters<typeof SpillGrep>) {
  const { kept, sessionId, store } = yield* opened(params.spill)
  const { caseSensitive, literal, pattern } = params
  let left = TextPattern.firstPatience
  const shortText = TextPattern.shortText(pattern, { caseSensitive, literal })
  const find = Effect.fnUntraced(function* (bytes: Uint8Array, keep: number, line: number) {
    // Most pieces of a large spill need not be sent.
    if (shortText !== undefined && !Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).includes(shortText)) {
      return none
    }
    const piece = { pattern, options: { caseSensitive, literal }, bytes, keep, line, left }
    const found = yield* OffThread.run(searchPiece, piece)
    if ("fault" in found) return yield* new PatternRefused({ pattern, message: found.fault })
    left = found.left
    return found.matches
  })
  const wanted = { startLine: params.startLine ?? 1, keep: Math.min(params.limit ?? 40, 80) }
  const { count, first } = yield* SpillSearch.search(store, sessionId, kept, wanted, find)
  return { matches: count, lines: first, truncated: first.length < count }
})

const isCallId = Schema.is(CallId)

/** Bytes without a character at their end that is not whole, unless there is nothing else. */
const wholeCharacters = (bytes: Buffer): Buffer => {
  const last = bytes.findLastIndex((byte) => (byte & 0xc0) !== 0x80)
  const first = bytes[last] ?? 0
  const size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1
  return last > 0 && last + size > bytes.length ? bytes.subarray(0, last) : bytes
}

const decoder = new TextDecoder()

/** The handlers of `toolkit`: they need nothing, the store and the session are those of the call. */
export const handlers = toolkit.of({ spill_read: spillRead, spill_grep: spillGrep })

export const layer = toolkit.toLayer(handlers)
