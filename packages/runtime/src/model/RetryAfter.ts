/**
 * How long a provider asks us to wait.
 *
 * Owns: the headers `retry-after-ms` and `retry-after` (seconds or an HTTP
 * date). Does not own: whether anybody waits.
 */
import * as Duration from "effect/Duration"

/** Waiting time from response headers (lower-case names); `now` is in milliseconds since the epoch. */
export const fromHeaders = (headers: Readonly<Record<string, string>>, now: number): Duration.Duration | undefined => {
  const millis = Number.parseFloat(headers["retry-after-ms"] ?? "")
  if (Number.isFinite(millis)) return Duration.millis(Math.max(0, millis))
  const header = headers["retry-after"]?.trim()
  if (header === undefined || header === "") return undefined
  const seconds = Number(header)
  if (Number.isFinite(seconds)) return Duration.seconds(Math.max(0, seconds))
  const date = Date.parse(header)
  return Number.isNaN(date) ? undefined : Duration.millis(Math.max(0, date - now))
}
