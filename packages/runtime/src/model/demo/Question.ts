/**
 * What a `/files` question asks about, by simple rules.
 *
 * Owns: finding a search word and a folder in plain words. Does not own: looking
 * for them (`FilesScript`).
 */

export interface Question {
  /** The fixed text to search for, if the question names one. */
  readonly word: string | undefined
  /** The folder it names; `.` is the whole workspace. */
  readonly path: string
}

/**
 * Reads a question. The folder follows "under", "in", …; the word is the first of:
 * something quoted, a call as `name(`, a word in capitals, the word after "for", an identifier.
 */
export const read = (question: string): Question => {
  const place = placeOf(question)
  const rest = place === undefined ? question : question.slice(0, place.from) + question.slice(place.to)
  return { word: wordOf(rest), path: place?.path ?? "." }
}

const placeOf = (question: string) => {
  const places = [
    ...question.matchAll(/\b(under|below|inside|within|in)\s+(?:the\s+)?(?:(["'`])(.+?)\2|([^\s"'`?!,;:]+))/gi)
  ]
    .map((match) => ({
      from: match.index,
      to: match.index + match[0].length,
      // a full stop ends a sentence, not a path
      path: match[3] ?? (match[4] ?? "").replace(/(?<=[^./])\.+$/, ""),
      isStrong: match[1]?.toLowerCase() !== "in"
    }))
    .filter(({ path }) => path !== "" && !noPlace.has(path.toLowerCase()))
  return places.findLast((place) => place.isStrong) ?? places.at(-1)
}

const wordOf = (text: string): string | undefined =>
  /(?<!\w)(["'`])(\S(?:.*?\S)?)\1(?!\w)/.exec(text)?.[2] ??
  /(?<![\w.])[\w$]+(?:\.[\w$]+)*\(/.exec(text)?.[0] ??
  /\b[A-Z][A-Z0-9_]+\b/.exec(text)?.[0] ??
  afterFor(text) ??
  /\b(?:\w+(?:\.\w+)+|\w*[a-z][A-Z]\w*|\w+_\w+)\b/.exec(text)?.[0]

const afterFor = (text: string): string | undefined => {
  const found = /\bfor\s+(?:(?:the|a|an|any|all|word|text|string|uses|of)\s+)*([^\s"'`?!.,;:]+)/i.exec(text)?.[1]
  return found === undefined || noPlace.has(found.toLowerCase()) ? undefined : found
}

/** Words that follow "in" or "for" without naming anything. A folder that does not exist is noticed later. */
const noPlace: ReadonlySet<string> = new Set(
  "all any each every everything general here it me my our that them there these this those total us which what your".split(
    " "
  )
)
