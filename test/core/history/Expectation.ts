/**
 * Compares a repair with the expectation of a corpus case, placeholders included.
 */
import { mark } from "../../../packages/core/src/history/Synthetic.ts"

const synthetic = /^<<SYNTHETIC:.*>>$/
const newId = /^<<NEWID:(.+)>>$/

/** Where a value differs from what is expected; `undefined` if it does not. */
export const difference = (
  actual: unknown,
  expected: unknown,
  path = "",
  ids = new Map<string, unknown>()
): string | undefined => {
  if (typeof expected === "string") {
    if (synthetic.test(expected)) {
      return typeof actual === "string" && actual.startsWith(mark) ? undefined : `${path}: no synthetic text`
    }
    const [, key] = newId.exec(expected) ?? []
    if (key !== undefined) return differentId(actual, key, path, ids)
  }
  if (typeof actual !== "object" || typeof expected !== "object" || actual === null || expected === null) {
    return actual === expected ? undefined : `${path}: ${JSON.stringify(actual)} is not ${JSON.stringify(expected)}`
  }
  const keys = new Set([...Object.keys(actual), ...Object.keys(expected)])
  for (const key of keys) {
    if (!(key in actual) || !(key in expected)) return `${path}/${key}: ${key in actual ? "too much" : "missing"}`
    const found = difference(
      (actual as Record<string, unknown>)[key],
      (expected as Record<string, unknown>)[key],
      `${path}/${key}`,
      ids
    )
    if (found !== undefined) return found
  }
  return undefined
}

const differentId = (actual: unknown, key: string, path: string, ids: Map<string, unknown>): string | undefined => {
  if (typeof actual !== "string" || !/^[A-Za-z0-9_-]{1,40}$/.test(actual)) return `${path}: no legal id`
  if (ids.has(key)) return ids.get(key) === actual ? undefined : `${path}: another id than before`
  if ([...ids.values()].includes(actual)) return `${path}: the id of another call`
  ids.set(key, actual)
  return undefined
}
