import { assert, describe, it } from "@effect/vitest"
import * as TextEdit from "@turnstep/runtime/tools/TextEdit"
import * as fc from "fast-check"

const replaced = (text: string, old: string, next: string): string => {
  const made = TextEdit.replace(text, old, next)
  if ("refused" in made) throw new Error(made.refused)
  return made.text
}
const refusal = (text: string, old: string, next = "x"): string => {
  const made = TextEdit.replace(text, old, next)
  return "refused" in made ? made.refused : `made ${JSON.stringify(made.text)}`
}

describe("TextEdit", () => {
  it("finds a text over CRLF line ends, and writes them", () => {
    assert.strictEqual(replaced("a\r\nb\r\nc\r\n", "a\nb", "a\nx\ny"), "a\r\nx\r\ny\r\nc\r\n")
    assert.strictEqual(replaced("a\r\nb\r\n", "a\r\nb", "a\r\nx"), "a\r\nx\r\n")
    assert.strictEqual(replaced("a\r\nb", "b", "b\nc"), "a\r\nb\r\nc")
    assert.strictEqual(replaced("a\nb\n", "a", "a\r\nx"), "a\nx\nb\n")
    assert.strictEqual(replaced("a", "a", "a\nb"), "a\nb")
  })

  it("keeps the line ends of a mixed file where it changes nothing", () => {
    assert.strictEqual(replaced("a\r\nb\nc\r\nd\n", "a\nb\nc\nd", "a\nB\nc\nd"), "a\r\nB\nc\r\nd\n")
    assert.strictEqual(replaced("a\nb\r\nc\n", "b", "b1\nb2"), "a\nb1\r\nb2\r\nc\n")
  })

  it("keeps a byte order mark, which nobody shows", () => {
    assert.strictEqual(replaced("\ufeffone\r\ntwo", "one\ntwo", "1\n2"), "\ufeff1\r\n2")
    assert.strictEqual(replaced("\ufeffone", "\ufeffone", "\ufefftwo"), "\ufefftwo")
  })

  it("takes a carriage return alone as a character", () => {
    assert.strictEqual(replaced("a\rb\nc", "a\rb", "x\ry"), "x\ry\nc")
  })

  it("says what differs", () => {
    const file = "function a() {\n  return 1\n}\n\nfunction b() {\n\treturn 2\n}\n"
    assert.include(refusal(file, "function b() {\n  return 2\n}"), "differs in white space at line 6")
    assert.include(refusal(file, "function b() {\n\treturn 3\n}"), 'at line 6: the file has "\\treturn 2"')
    assert.include(refusal(file, "function a() {\n  return 1\n}\n\nfunction b() {\n\treturn 2\n}\nmore"), "line 8")
    assert.include(refusal(file, "function c"), "not in the file")
    assert.include(refusal("b\na\n", "a\nb"), "the file ends there")
    assert.include(refusal("a\na\n", "a"), "more than once")
  })

  it("does not cut a character in two", () => {
    assert.include(refusal("😀", "\ud83d"), "whole Unicode characters")
    assert.include(refusal("a", "a", "\ude00"), "whole Unicode characters")
    assert.strictEqual(replaced("😀", "😀", "😁"), "😁")
  })

  it("ends for texts on which a search by comparing would take hours", () => {
    const many = "a".repeat(4_000_000)
    assert.include(refusal(many, `b${"a".repeat(1_000_000)}`), "not in the file")
    assert.include(refusal(many, "a".repeat(1_000_000)), "more than once")
    assert.include(refusal("a\n".repeat(1_000_000), `${"a\n".repeat(400_000)}b`), "not in the file")
  })

  const Line = fc.string({ unit: fc.constantFrom("a", "b", " ", "\t", "é", "😀", "\r"), maxLength: 5 })
  const End = fc.constantFrom("\n", "\r\n")

  it("leaves every byte of every line outside the change as it was, whatever the file and the edit", () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(Line, End), { minLength: 1, maxLength: 12 }),
        fc.boolean(),
        fc.nat(11),
        fc.nat(3),
        fc.array(Line, { maxLength: 3 }),
        (lines, isMarked, at, length, next) => {
          // A line that ends with CR would make its LF a CRLF.
          const clean = lines.map(([line, end], n) => [`#${n}:${line.replace(/\r+$/, "")}`, end] as const)
          const from = Math.min(at, clean.length - 1)
          const to = Math.min(from + length + 1, clean.length)
          const text = (isMarked ? "\ufeff" : "") + clean.map(([line, end]) => line + end).join("")
          const old = clean.slice(from, to).map(([line]) => `${line}\n`)
          const put = next.map((line) => `${line.replace(/\r+$/, "")}\n`)
          const made = replaced(text, old.join(""), put.join(""))
          const head = text.slice(
            0,
            (isMarked ? 1 : 0) +
              clean
                .slice(0, from)
                .map(([l, e]) => l + e)
                .join("").length
          )
          const tail = clean
            .slice(to)
            .map(([line, end]) => line + end)
            .join("")
          assert.isTrue(made.startsWith(head))
          assert.isTrue(made.endsWith(tail))
          const middle = made.slice(head.length, made.length - tail.length)
          assert.strictEqual(middle.replaceAll("\r\n", "\n"), put.join(""))
        }
      ),
      { numRuns: 2_000 }
    )
  })

  it("changes only the lines that differ, also when it is given the whole file", () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(Line, End), { minLength: 1, maxLength: 12 }), fc.nat(11), (lines, at) => {
        const clean = lines.map(([line, end], n) => [`#${n}:${line.replace(/\r+$/, "")}`, end] as const)
        const index = Math.min(at, clean.length - 1)
        const text = clean.map(([line, end]) => line + end).join("")
        const whole = clean.map(([line]) => `${line}\n`).join("")
        const changed = clean.map(([line], n) => `${n === index ? "changed" : line}\n`).join("")
        const due = clean.map(([line, end], n) => (n === index ? "changed" : line) + end).join("")
        assert.strictEqual(replaced(text, whole, changed), due)
      }),
      { numRuns: 1_000 }
    )
  })
})
