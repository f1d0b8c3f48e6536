/**
 * The name under which the model knows a tool of a server: `<server>__<tool>`, as every provider accepts it.
 *
 * - N1. A name is 1 to 64 of the characters `A-Z a-z 0-9 _ -` (contract rule O7), whatever the server calls its tool.
 * - N2. Two tools of a server never get the same name, and a tool has the same name in every process.
 */
import * as Canonical from "@turnstep/core/Canonical"

/** Characters of a name at the most. */
export const longest = 64

/** A server's own name; short enough that its tools keep most of theirs. */
export const isServerName = (name: string): boolean => /^[A-Za-z0-9](?:[A-Za-z0-9_-]{0,30}[A-Za-z0-9])?$/.test(name)

/** The names of a server's tools, by the names it gives them (N1, N2). */
export const all = (server: string, tools: ReadonlyArray<string>): ReadonlyMap<string, string> => {
  const readable = new Map(tools.map((tool) => [tool, `${server}__${tool.replace(/[^A-Za-z0-9_-]/g, "_")}`]))
  const count = new Map<string, number>()
  for (const name of readable.values()) count.set(name, (count.get(name) ?? 0) + 1)
  return new Map(
    [...readable].map(([tool, name]) => {
      const isSafe = name.length <= longest && count.get(name) === 1
      return [tool, isSafe ? name : `${name.slice(0, longest - mark - 1)}_${Canonical.digest(tool).slice(0, mark)}`]
    })
  )
}

/** Digits of a digest that tell names apart that would be the same without them. */
const mark = 8
