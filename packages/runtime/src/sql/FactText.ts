/**
 * The data of a fact as the text that is written.
 *
 * Owns: the encoding, and the size that a fact may have. Does not own: what is written with it (`AppendBatch`).
 *
 * - X1. No fact is written that could not be read again: clients read values of up to 64 MiB (`database/Postgres`). What is on
 *   record is this text (the column is `json`), in which a number such as 1e20 is longer than a client may have written it.
 */
import { FactTooLarge } from "@turnstep/core/TurnError"
import type { Fact } from "@turnstep/core/TurnEvent"

/** Bytes of a fact on record at most. */
export const mostBytes = 32 * 1024 * 1024

/** The texts of facts. Throws `FactTooLarge` (X1). */
export const of = (facts: ReadonlyArray<Fact>): ReadonlyArray<string> =>
  facts.map(({ data, type }) => {
    const text = JSON.stringify(data)
    const bytes = Buffer.byteLength(text)
    if (bytes > mostBytes) throw new FactTooLarge({ type, bytes, most: mostBytes })
    return text
  })
