/**
 * The services behind the tools: they live in the test's process, and nothing that happens to a child makes them forget.
 *
 * Owns: how often each call key was heard, and calls that are held. Does not own: what that must be (`Judge`).
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as http from "node:http"

/** What a tool tells when it is started. */
export interface Start {
  readonly tool: string
  readonly act: string
  readonly key: string
}

export interface Outside {
  readonly url: string
  /** Every start of a tool, in the order of their arrival. */
  readonly starts: ReadonlyArray<Start>
  /** Lets an act go on, now and whenever it comes again. An act that begins with `hold` waits for this. */
  readonly release: (act: string) => void
  /** From now on nothing waits for `first`. */
  readonly relax: () => void
  /** Completes when an act has been started so often. */
  readonly heard: (act: string, times: number) => Effect.Effect<void>
}

/** `first`: acts by those that are answered only when they have been started. */
export const make = Effect.fn("Outside.make")(function* (
  first: Readonly<Record<string, string>>
): Effect.fn.Return<Outside, never, Scope.Scope> {
  const starts: Array<Start> = []
  const free = new Set<string>()
  let isRelaxed = false
  const held: Array<{ readonly act: string; readonly answer: () => void }> = []
  const listeners = new Set<() => void>()

  const mayAnswer = (act: string): boolean => {
    const before = first[act]
    if (act.startsWith("hold") && !free.has(act)) return false
    return isRelaxed || before === undefined || starts.some((start) => start.act === before)
  }

  const answerAll = (): void => {
    for (const each of held.splice(0)) {
      if (mayAnswer(each.act)) each.answer()
      else held.push(each)
    }
  }

  const take = (start: Start, response: http.ServerResponse): void => {
    starts.push(start)
    held.push({ act: start.act, answer: () => void response.end(`did ${start.act}`) })
    answerAll()
    for (const look of listeners) look()
  }
  const server = yield* Effect.acquireRelease(
    Effect.callback<http.Server>((resume) => {
      const made = http.createServer((request, response) => {
        let body = ""
        request.setEncoding("utf8")
        request.on("data", (piece: string) => (body += piece))
        request.on("end", () => take(JSON.parse(body), response))
      })
      made.listen(0, "127.0.0.1", () => resume(Effect.succeed(made)))
    }),
    (made) =>
      Effect.callback<void>((resume) => {
        made.close(() => resume(Effect.void))
        made.closeAllConnections()
      })
  )
  const address = server.address()
  const outside: Outside = {
    url: `http://127.0.0.1:${typeof address === "object" && address !== null ? address.port : 0}/`,
    starts,
    release: (act) => {
      free.add(act)
      answerAll()
    },
    relax: () => {
      isRelaxed = true
      answerAll()
    },
    heard: (act, times) =>
      Effect.callback((resume) => {
        const look = () => {
          if (starts.filter((start) => start.act === act).length < times) return
          listeners.delete(look)
          resume(Effect.void)
        }
        listeners.add(look)
        look()
      })
  }
  return outside
})
