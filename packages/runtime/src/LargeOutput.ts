/**
 * An output as it is collected: whole in memory while it is small, else kept in the spill store while it passes.
 *
 * Owns: when an output is spilled, and what is shown of one that was. Does not own: the store (`core/SpillStore`).
 *
 * - L1. Memory is bounded by the threshold, whatever a tool gives.
 * - L2. What is shown of a spilled output begins and ends with whole lines, or characters where lines are long.
 */
import { type SessionId, SpillId } from "@turnstep/core/Ids"
import * as SpillStore from "@turnstep/core/SpillStore"
import * as ToolOutput from "@turnstep/core/ToolOutput"
import * as Effect from "effect/Effect"
import * as Pull from "effect/Pull"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"

/** What a tool may give piece by piece: texts in whole characters, or bytes of UTF-8. */
export type Content<E = unknown> = Stream.Stream<string | Uint8Array, E>

/** A collected output. */
export const Output = Schema.Struct({
  text: Schema.String.annotate({ description: "The output; its beginning and end when it is too large to show" }),
  bytes: Schema.Int,
  spill: Schema.optionalKey(SpillId.annotate({ description: "Where all of it is kept: for spill_read and spill_grep" }))
})
export type Output = typeof Output.Type

/** The output was too large and could not be kept; `message` is for the model and shows how the output began. */
export class OutputLost extends Schema.TaggedError<OutputLost>()("OutputLost", { message: Schema.String }) {}

/** Keeps a content and says under which name. */
export type Keep = <E>(
  content: Stream.Stream<Uint8Array, E>
) => Effect.Effect<SpillStore.Spill, SpillStore.SpillRefused | E>

/** Reads a content to its end and keeps it when it has more than `limit` bytes, by default the threshold (L1). */
export const collect = <E>(
  content: Content<E>,
  keep: Keep,
  limit = SpillStore.threshold
): Effect.Effect<Output, OutputLost | E> =>
  Effect.scoped(
    Effect.gen(function* () {
      const pull = yield* Stream.toPull(bytesOf(content))
      const first: Array<Uint8Array> = []
      let size = 0
      const isWhole = yield* pull.pipe(
        Effect.map((pieces) => {
          for (const piece of pieces) {
            size += piece.length
            first.push(piece)
          }
        }),
        Effect.repeat({ until: () => size > limit }),
        Effect.as(false),
        Pull.catchDone(() => Effect.succeed(true))
      )
      if (isWhole) return { text: decoder.decode(Buffer.concat(first, size)), bytes: size }
      const edges = makeEdges()
      const rest = Stream.concat(
        Stream.suspend(() => Stream.fromIterable(first.splice(0))),
        Stream.fromPull(Effect.succeed(pull))
      )
      const spill = yield* keep(Stream.map(rest, edges.pass)).pipe(
        Effect.catchIf(
          (error): error is SpillStore.SpillRefused => error instanceof SpillStore.SpillRefused,
          (refused) => Effect.fail(new OutputLost({ message: lostText(refused, edges.head()) }))
        )
      )
      return { text: shownText(spill, edges.head(), edges.tail()), bytes: spill.bytes, spill: spill.id }
    })
  )

/** What is shown of a spill that was kept before, read from its ends alone (L1). */
export const shownOf = Effect.fnUntraced(function* (store: SpillStore.Service, sessionId: SessionId, id: SpillId) {
  const kept = yield* store.find(sessionId, id)
  const edges = makeEdges()
  const ends = [
    { start: 0, end: Math.min(edgeBytes, kept.bytes) },
    { start: Math.max(0, kept.bytes - edgeBytes), end: kept.bytes }
  ]
  for (const end of ends) edges.pass(Buffer.concat(yield* Stream.runCollect(store.read(sessionId, id, end))))
  return shownText(kept, edges.head(), edges.tail())
})

const { edgeBytes } = SpillStore

const shownText = ({ bytes, id, lines }: SpillStore.Spill, head: string, tail: string): string =>
  `[This output is too large to show: ${bytes} bytes in ${lines} lines. All of it is kept as spill ${id}. ` +
  `Look inside with spill_grep and spill_read; do not run the tool again for that.]\n` +
  `[It begins:]\n${head}\n[… ${Math.max(0, bytes - Buffer.byteLength(head) - Buffer.byteLength(tail))} bytes …]\n[It ends:]\n${tail}`

const lostText = ({ message }: SpillStore.SpillRefused, head: string): string =>
  `The output was too large to show, and it could not be kept. ${message} ` +
  `What the tool did before may have taken effect. The output began:\n${head}`

/** The bytes of a content in blocks: a tool may give single bytes, and pieces with nothing in them, without end (L1). */
const bytesOf = <E>(content: Content<E>): Stream.Stream<Uint8Array, E> =>
  Stream.mapAccumArray(content, makeBlocks, (blocks, pieces) => [blocks, blocks.add(pieces)], {
    onHalt: (blocks) => blocks.end()
  })

/** Pieces in, blocks out: small pieces are put together, large ones pass. */
const makeBlocks = () => {
  /** Half of a surrogate pair, which waits for the next text. */
  let half = ""
  let space = Buffer.alloc(0)
  let filled = 0
  let full: Array<Uint8Array> = []
  const flush = () => {
    if (filled > 0) full.push(space.subarray(0, filled))
    space = Buffer.alloc(0)
    filled = 0
  }
  const put = (bytes: Uint8Array) => {
    if (filled + bytes.length > SpillStore.blockSize) flush()
    if (bytes.length >= SpillStore.blockSize / 2) {
      flush()
      full.push(bytes)
      return
    }
    if (space.length === 0) space = Buffer.allocUnsafe(SpillStore.blockSize)
    space.set(bytes, filled)
    filled += bytes.length
  }
  const putText = (text: string) => {
    half = /[\ud800-\udbff]$/.test(text.slice(-1)) ? text.slice(-1) : ""
    put(Buffer.from(half === "" ? text : text.slice(0, -1)))
  }
  const taken = () => {
    const out = full
    full = []
    return out
  }
  const endText = () => {
    if (half !== "") put(Buffer.from(half))
    half = ""
  }
  return {
    add: (pieces: ReadonlyArray<string | Uint8Array>): ReadonlyArray<Uint8Array> => {
      for (const piece of pieces) {
        if (piece.length === 0) continue
        if (typeof piece === "string") putText(half + piece)
        else {
          endText()
          put(piece)
        }
      }
      return taken()
    },
    end: (): ReadonlyArray<Uint8Array> => {
      endText()
      flush()
      return taken()
    }
  }
}

/** The first and the last bytes of what passes. */
const makeEdges = () => {
  let head = Buffer.alloc(0)
  let tail = Buffer.alloc(0)
  return {
    pass: (piece: Uint8Array): Uint8Array => {
      if (head.length < edgeBytes) head = Buffer.concat([head, piece.subarray(0, edgeBytes - head.length)])
      const added = piece.subarray(-edgeBytes)
      // Copied: a view would hold the whole piece in memory.
      tail = Buffer.concat([tail.subarray(Math.max(0, tail.length + added.length - edgeBytes)), added])
      return piece
    },
    head: () => endedWell(new TextDecoder().decode(head, { stream: true })),
    tail: () => begunWell(decoder.decode(tail.subarray(continuations(tail))))
  }
}

/** Code units at an edge in which a line's end is looked for. */
const nearEdge = 1024

/** L2: ends with a line, or before the last cluster, which may have been cut. */
const endedWell = (text: string): string => {
  const end = text.lastIndexOf("\n") + 1
  if (end > 0 && end > text.length - nearEdge) return text.slice(0, end)
  return ToolOutput.part(text, 0, text.length - 1)
}

/** L2: begins with a line, or behind the first cluster. */
const begunWell = (text: string): string => {
  const start = text.indexOf("\n") + 1
  if (start > 0 && start < nearEdge) return text.slice(start)
  return ToolOutput.part(text, 1, text.length)
}

/** Bytes at the beginning that belong to a character before it. */
const continuations = (bytes: Uint8Array): number => {
  const first = bytes.findIndex((byte) => (byte & 0xc0) !== 0x80)
  return first < 0 ? bytes.length : first
}

const decoder = new TextDecoder()
