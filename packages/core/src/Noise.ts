/**
 * What differs between two results without saying anything: the time they were made, and the ids they were given.
 *
 * Owns: which parts of a result are such noise. Does not own: which results are compared (`Breaker`), or which tools are
 * compared without it (`ToolPolicy.Normalise`).
 *
 * - N1. Two results are the same without noise only if they say the same in everything else.
 * - N2. How far something has come (a count, a share, an elapsed time) is never noise.
 * - N3. The name of a spill is the digest of an output that is not shown whole: it is what the output says.
 */
import type { Json } from "./Canonical.ts"

/** The result with every time and id replaced by a mark. */
export const mask = (result: Json): Json => {
  if (typeof result === "string") return maskText(result)
  if (typeof result === "number") return isEpoch(result) ? mark : result
  if (isList(result)) return result.map(mask)
  if (typeof result === "object" && result !== null) {
    return Object.fromEntries(
      Object.entries(result).map(([key, value]) => [
        key,
        key === "spill" ? value : isNoise(key, value) ? mark : mask(value) // N3
      ])
    )
  }
  return result
}

/** A text with every time and id in it replaced by a mark. Linear in its length. */
export const maskText = (text: string): string => patterns.reduce((masked, each) => masked.replace(each, mark), text)

const mark = "…"

/** Whether a member holds nothing but a time or an id. A number under `id` may count what was done (N2). */
const isNoise = (key: string, value: Json): boolean =>
  (timeKey.test(key) && (typeof value === "string" || typeof value === "number")) ||
  (idKey.test(key) && typeof value === "string" && value.length >= 8 && /\d/.test(value))

const timeKey = /^(?:timestamp|took|\w*(?:_at|[a-z]At|_ts|_timestamp|Timestamp)|duration(?:_ms|Ms)?)$/
const idKey = /^(?:id|uuid|guid|nonce|etag|\w*(?:_id|Id))$/

const patterns: ReadonlyArray<RegExp> = [
  // UUIDs; long hexadecimal numbers, such as digests.
  /\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/gi,
  /\b(?=[0-9a-f]{0,15}[0-9])[0-9a-f]{16,128}\b/gi,
  // Ids with a prefix that says of what, such as req_8Kd03mQz.
  /\b[a-z]{2,12}_(?=[A-Za-z]{0,24}[0-9])[A-Za-z0-9]{8,64}\b/g,
  // Times of a day: ISO 8601, RFC 9110, and how log lines, shells and names of files write them. A date alone may be what
  // was asked for.
  /\b\d{4}-\d\d-\d\d[T_ ]\d\d[:_-]\d\d(?:[:_-]\d\d(?:[.,_]\d{1,9})?)?(?:Z|\s?[+-]\d\d:?\d\d)?/g,
  /\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? (?:\d\d? )?(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\b[ \d:]{0,20}(?:GMT|UTC)?/g,
  /\b\d\d:\d\d:\d\d(?:[.,]\d{1,9})?\b/g,
  // How long it took, where the text says that this is what it is, or is as exact as only a measured time is. What has come
  // after some seconds may be coming still (N2).
  /\b(?:in|took|duration:?|time:?)\s{1,8}\d{1,9}(?:\.\d{1,9})?\s?(?:ms|s|sec|secs|seconds|m|min|minutes)\b/gi,
  /\bafter\s{1,8}\d{1,9}(?:\.\d{1,9})?\s?ms\b/gi,
  /\b\d{1,6}\.\d{2,6}\s?m?s\b/g,
  // Seconds and milliseconds since the epoch, from 2014 on.
  /\b1[4-9]\d{8}(?:\d{3})?(?:\.\d{1,9})?\b/g
]

const isEpoch = (value: number): boolean =>
  (value >= 1_400_000_000 && value < 2_000_000_000) || (value >= 1_400_000_000_000 && value < 2_000_000_000_000)

const isList = (value: Json): value is ReadonlyArray<Json> => Array.isArray(value)
