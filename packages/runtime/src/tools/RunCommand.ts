/**
 * `run_command`: a shell command in the workspace.
 *
 * A command can do whatever the user of the server can: it is confined by nothing but its working folder. An agent has this
 * tool only when its application gives it.
 *
 * Owns: the process of a command from start to end. Does not own: its output (`ToolCall.keep`).
 *
 * - R1. A command runs in a process group of its own. Its end, a timeout and a cancel end the whole group: TERM, and after a
 *   second KILL. What left the group (`setsid`) is not found.
 * - R2. Output of any size takes bounded memory; what is too large to show is kept as a spill.
 * - R3. A command inherits no variable of the server but those it needs to find programs and a home. That is tidiness, not
 *   secrecy: where the system lets a user look at own processes, a command can read the server's environment and memory.
 */
import * as ToolPolicy from "@turnstep/core/ToolPolicy"
import * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as ChildProcess from "effect/process/ChildProcess"
import * as ChildProcessSpawner from "effect/process/ChildProcessSpawner"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as LargeOutput from "../LargeOutput.ts"
import * as ToolCall from "../ToolCall.ts"
import * as WorkspacePath from "./WorkspacePath.ts"
import { exclusive } from "./WorkspaceWrite.ts"

/** The command could not be started; `message` is written for the model. */
export class CommandRefused extends Schema.TaggedError<CommandRefused>()("CommandRefused", {
  message: Schema.String
}) {}

/** Seconds a command may take unless it is said otherwise, and at most. */
export const seconds = { usual: 120, most: 1800 } as const

/** Runs a command. */
export const RunCommand = Tool.make("run_command", {
  description:
    "Run a shell command (`sh -c`) in the workspace and wait for its end. There is no terminal and no input. Standard output " +
    "and standard error come together. What it leaves running is stopped with it.",
  parameters: Schema.Struct({
    command: Schema.String.check(Schema.isNonEmpty(), Schema.isMaxLength(20_000)),
    folder: Schema.optionalKey(Schema.String.annotate({ description: "Working folder; default: the workspace root." })),
    timeoutSeconds: Schema.optionalKey(
      Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: seconds.most })).annotate({
        description: `Default ${seconds.usual}, at most ${seconds.most}.`
      })
    )
  }),
  success: Schema.Struct({
    exitCode: Schema.NullOr(Schema.Int).annotate({ description: "null when it was stopped" }),
    timedOut: Schema.Boolean,
    output: LargeOutput.Output
  }),
  failure: Schema.Union([WorkspacePath.PathRefused, CommandRefused, LargeOutput.OutputLost]),
  failureMode: "return"
})
  .annotate(ToolPolicy.Effects, "once")
  .annotate(ToolPolicy.Exclusive, exclusive)
  .annotate(ToolPolicy.Timeout, Duration.seconds(seconds.most + 30))

export const toolkit = Toolkit.make(RunCommand)

/** How long a command may take to end when it is told to (R1). */
const killAfter = Duration.seconds(1)

/** How long what a command has left running may still write, and how long a pipe that stays open may be silent. */
const lastWords = Duration.millis(200)

/** How long what has left the group, and goes on writing, is listened to when the group is gone. */
const escaped = Duration.seconds(2)

/** In parts: what has come meanwhile is read before the time is over, also when the process itself was held up. */
const silence = Effect.repeat(Effect.sleep(Duration.divideUnsafe(lastWords, 10)), { times: 9 })

const make = Effect.fnUntraced(function* (root: string) {
  const workspace = yield* WorkspacePath.make(root)
  const spawner = yield* ChildProcessSpawner.ChildProcessSpawner

  const run = Effect.fn("Workspace.runCommand")(function* (params: Tool.Parameters<typeof RunCommand>) {
    const folder = yield* workspace.locate(params.folder ?? ".")
    if (folder.kind !== "Directory") return yield* WorkspacePath.refuse(folder.path, "not-a-folder")
    const command = ChildProcess.make("sh", ["-c", params.command], {
      cwd: folder.real,
      env: environment(),
      stdin: "ignore",
      killSignal: "SIGTERM",
      forceKillAfter: killAfter
    })
    return yield* Effect.scoped(
      Effect.gen(function* () {
        const child = yield* Effect.mapError(
          spawner.spawn(command),
          ({ reason }) => new CommandRefused({ message: `The command could not be started (${reason._tag}).` })
        )
        const limit = Duration.seconds(params.timeoutSeconds ?? seconds.usual)
        // A process that a signal ended has no exit code.
        const ended = Effect.timeoutOption(Effect.option(child.exitCode), limit)
        const exit = yield* Effect.forkScoped(
          Effect.tap(ended, (code) =>
            Option.isNone(code) ? Effect.ignore(child.kill({ forceKillAfter: killAfter })) : Effect.void
          )
        )
        const over = yield* Effect.forkScoped(
          Fiber.await(exit).pipe(
            Effect.andThen(Effect.sleep(lastWords)),
            Effect.andThen(Effect.ignore(child.kill({ forceKillAfter: killAfter })))
          )
        )
        const output = yield* child.all.pipe(
          whileItSpeaks(Fiber.await(over)),
          Stream.interruptWhen(Effect.andThen(Fiber.await(over), Effect.sleep(escaped))),
          Stream.mapError(() => new CommandRefused({ message: "The output of the command could not be read." })),
          ToolCall.keep
        )
        const code = yield* Fiber.join(exit)
        return {
          exitCode: Option.getOrNull(Option.flatten(code)),
          timedOut: Option.isNone(code),
          output
        }
      })
    )
  })
  return toolkit.of({ run_command: run })
})

/** Ends an output that is silent when it is `over`: what was written before is read, however slowly it is taken. */
const whileItSpeaks =
  (over: Effect.Effect<unknown>) =>
  <A, E, R>(output: Stream.Stream<A, E, R>): Stream.Stream<A, E, R> =>
    Stream.transformPull(output, (pull) =>
      Effect.succeed(Effect.raceFirst(pull, Effect.andThen(over, Effect.andThen(silence, Cause.done()))))
    )

/** The handlers of `toolkit`, with commands that start in `root`. */
export const layer = (options: { readonly root: string }) => toolkit.toLayer(make(options.root))

/** R3 */
const environment = (): Record<string, string> =>
  Object.fromEntries([
    ...["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ", "TMPDIR"].flatMap((name) => {
      const value = process.env[name]
      return value === undefined ? [] : [[name, value]]
    }),
    ["TERM", "dumb"],
    ["CI", "1"]
  ])
