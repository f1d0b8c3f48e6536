/**
 * The data of a fact as the text that is written.
 *
 * Owns: the encoding, and the size that a fact may have. Does not own: what is written with it (`AppendBatch`).
 *
 * - X1. No fact is written that could not be read again: clients read values of up to 64 MiB (`database/Postgres`), and a
 *   number with an exponent is longer on record than it is in the text.
 */
import { FactTooLarge } from "@turnstep/core/TurnError"
import type { Fact } from "@turnstep/core/TurnEvent"

/** Bytes of a fact on record at most. */
export const mostBytes = 32 * 1024 * 1024

/** The texts of facts. Throws `FactTooLarge` (X1). */
export const of = (facts: ReadonlyArray<Fact>): ReadonlyArray<string> =>
  facts.map(({ data, type }) => {
    const text = JSON.stringify(data)
    const bytes = bytesOnRecord(text)
    if (bytes > mostBytes) throw new FactTooLarge({ type, bytes, most: mostBytes })
    return text
  })

/** Bytes of a JSON text on record, where every digit of a number is written out; counting stops beyond `mostBytes`. */
export const bytesOnRecord = (text: string): number => {
  // A number grows by less than a hundred times, and most texts are far from the limit.
  if (text.length * 100 <= mostBytes) return text.length
  let bytes = Buffer.byteLength(text)
  let isString = false
  for (let index = 0; index < text.length && bytes <= mostBytes; index++) {
    const unit = text.charCodeAt(index)
    if (isString) {
      if (unit === backslash) index++
      else if (unit === quote) isString = false
    } else if (unit === quote) isString = true
    else if (unit === exponentMark) bytes += Math.abs(Number.parseInt(text.slice(index + 1, index + 6), 10)) || 0
  }
  return bytes
}

const quote = 0x22
const backslash = 0x5c
/** The `e` of a number, as `JSON.stringify` writes it; behind that of `true` and `false` there are no digits. */
const exponentMark = 0x65
