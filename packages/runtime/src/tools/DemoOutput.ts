/**
 * A demo tool whose output is as long as one asks for: `long_output`.
 *
 * - O1. Line n says that it is line n and has 64 bytes: what is found in it can be checked by counting.
 * - O2. It is made while it is read; nobody holds it whole.
 */
import * as ToolPolicy from "@turnstep/core/ToolPolicy"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Tool from "effect/ai/Tool"
import * as ToolCall from "../ToolCall.ts"
import * as ToolStream from "../ToolStream.ts"

/** Bytes of a line, its end included (O1). */
export const lineBytes = 64

/** The largest output one may ask for: 4 GiB. */
export const mostBytes = 4 * 1024 * 1024 * 1024

/** Gives numbered lines. */
export const LongOutput = Tool.make("long_output", {
  description: "Give numbered lines of 64 bytes each, as many as make up the bytes asked for.",
  parameters: Schema.Struct({ bytes: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: mostBytes })) }),
  success: ToolStream.schema
})
  .annotate(Tool.Readonly, true)
  .annotate(ToolPolicy.Timeout, Duration.minutes(10))

/** The text of a line. */
export const line = (n: number): string => `line ${String(n).padStart(10, "0")} of the long output${" ".repeat(28)}.\n`

export const longOutput = ({ bytes }: Tool.Parameters<typeof LongOutput>) => {
  const lines = Math.ceil(bytes / lineBytes)
  return Effect.succeed(
    ToolStream.make(
      Stream.unfold(0, (made) =>
        made >= lines
          ? Effect.undefined
          : Effect.as(ToolCall.progress({ bytes: made * lineBytes, of: lines * lineBytes }), [
              linesFrom(made + 1, Math.min(pieceLines, lines - made)),
              made + pieceLines
            ] as const)
      )
    )
  )
}

const pieceLines = 1024

/** Lines in one piece: the digits are written over a copy, which is much faster than making every line anew. */
const linesFrom = (first: number, count: number): Uint8Array => {
  const piece = Buffer.from(template.subarray(0, count * lineBytes))
  for (let index = 0; index < count; index++) {
    let rest = first + index
    for (let at = index * lineBytes + 14; rest > 0; at--) {
      piece[at] = 48 + (rest % 10)
      rest = Math.floor(rest / 10)
    }
  }
  return piece
}

const template = Buffer.from(line(0).repeat(pieceLines))
