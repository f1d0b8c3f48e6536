/**
 * One cell of the crash matrix: a database, and a place where the first process dies.
 *
 * Owns: starting, killing and listening to the processes. Does not own: what they do (`Script`), or what must hold at the
 * end (`Judge`).
 */
import * as Migrations from "@turnstep/runtime/sql/Migrations"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import * as fs from "node:fs"
import * as path from "node:path"
import * as Child from "../fixtures/Child.ts"
import type { Database } from "../fixtures/Databases.ts"
import * as Pglite from "../fixtures/Pglite.ts"
import * as Postgres from "../fixtures/Postgres.ts"
import * as RunDirectory from "../fixtures/RunDirectory.ts"
import * as Judge from "./Judge.ts"
import * as Outside from "./Outside.ts"
import * as Script from "./Script.ts"
import type { Line, Stop, Task } from "./Told.ts"

/** A world for the processes of one cell: database, model server and services are there, whoever dies. */
export interface World {
  readonly database: Task["database"]
  readonly provider: StrictProvider.StrictProvider
  readonly outside: Outside.Outside
  readonly seen: Judge.Seen
  /** What the processes have logged: level and message. */
  readonly logged: ReadonlyArray<string>
  readonly start: (task?: Partial<Task>) => Effect.Effect<Process, never, Scope.Scope>
}

export interface Process {
  readonly pid: number
  readonly kill: Effect.Effect<void>
  /** Listens until a line of one of these kinds comes; nothing when the process ends before. */
  readonly until: (...kinds: ReadonlyArray<Kind>) => Effect.Effect<Heard>
}

type KindOf<L> = L extends Line ? keyof L : never
export type Kind = KindOf<Line>

/** A line by its kind. */
export type Heard = {
  readonly [K in Kind]?: Extract<Line, Record<K, unknown>>[K & keyof Extract<Line, Record<K, unknown>>]
}

const template = { name: "turnstep", migrate: Migrations.migrate }

/** `isHeld`: what the client releases stays held all the same, so that a Turn stays open. */
export const make = Effect.fn("Cell.make")(function* (database: Database["name"], isHeld = false) {
  return yield* makeOn(yield* freshDatabase(database), isHeld)
})

const freshDatabase = (database: Database["name"]): Effect.Effect<Task["database"], never, Scope.Scope> =>
  database === "PGlite"
    ? Effect.map(Pglite.freshDirectory(template), (dataDir) => ({ dataDir }))
    : Effect.map(Postgres.freshUrl(template), (url) => ({ url: Redacted.value(url) }))

/** A world on a database that has its schema. */
export const makeOn = Effect.fn("Cell.makeOn")(function* (place: Task["database"], isHeld = false) {
  // Children read the same sources over and over.
  process.env["NODE_COMPILE_CACHE"] ??= path.join(RunDirectory.runDirectory(), "compiled")
  const provider = yield* StrictProvider.make({ respond: Script.respond })
  const outside = yield* Outside.make(Script.first)
  const spills = fs.mkdtempSync(path.join(RunDirectory.runDirectory(), "spills-"))
  const logged: Array<string> = []
  const seen: Judge.Seen = { admitted: new Map(), withdrawn: new Set(), found: [], crashes: 0, zombies: 0 }

  const hear = (line: Line): void => {
    if ("admitted" in line) {
      const { itemId, name } = line.admitted
      seen.admitted.set(name, (seen.admitted.get(name) ?? new Set()).add(itemId))
    } else if ("withdrawn" in line) seen.withdrawn.add(line.withdrawn)
    else if ("release" in line) void (isHeld || outside.release(line.release))
    else if ("found" in line) seen.found.push({ answers: line.found.answers, requests: provider.requests.length })
    else if ("cut" in line) seen.crashes++
    else if ("logged" in line) logged.push(line.logged)
  }

  const start: World["start"] = Effect.fnUntraced(function* (rest = {}) {
    const task: Task = {
      database: place,
      provider: provider.baseUrl,
      outside: outside.url,
      spills,
      role: "client",
      endLeases: false,
      ...rest
    }
    const child = yield* Child.start("converse", JSON.stringify(task))
    const until: Process["until"] = (...kinds) =>
      Effect.gen(function* () {
        for (;;) {
          const text = yield* child.line
          if (text === undefined) return {}
          if (!text.startsWith("@")) continue
          const line: Line = JSON.parse(text.slice(1))
          hear(line)
          if (kinds.some((kind) => kind in line)) return line
        }
      })
    return { pid: child.pid, kill: child.kill, until }
  })
  const world: World = { database: place, provider, outside, seen, logged, start }
  return world
})

/** Errors the processes have logged; storage was there all the time, so there is no reason for any. */
export const errorsOf = ({ logged }: World): ReadonlyArray<string> =>
  logged.filter((line) => line.startsWith("Error") || line.startsWith("Fatal"))

/** What became of a cell. */
export interface Report {
  /** Whether the process came to the place it was to die at. */
  readonly died: boolean
  readonly complaints: ReadonlyArray<string>
  /** How often the last process passed each place. */
  readonly passed: Readonly<Record<string, number>>
  /** Milliseconds. */
  readonly took: number
}

/** Has the conversation, kills its process at the place, and has the next process go on to the end. */
export const run = Effect.fn("Cell.run")(function* (database: Database["name"], stop: Stop | undefined) {
  const world = yield* make(database)
  const began = performance.now()
  const first = yield* world.start({ stop })
  // A place that is not passed so often lets the process come to its end.
  const heard = yield* first.until("stopped", "end")
  const died = heard.stopped !== undefined
  let { end } = heard
  let last = first
  if (died) {
    yield* first.kill
    // What the dead one had not begun may never be.
    world.outside.relax()
    world.seen.crashes++
    last = yield* world.start({ endLeases: true })
    end = (yield* last.until("end")).end
  }
  const { passed } = yield* last.until("passed")
  const report: Report = {
    died,
    complaints:
      end === undefined
        ? [`no end: ${world.logged.join("; ")}`]
        : [...Judge.complaints(end, world.seen, world.provider, world.outside.starts), ...errorsOf(world)],
    passed: passed ?? {},
    took: Math.round(performance.now() - began)
  }
  return report
}, Effect.scoped)
