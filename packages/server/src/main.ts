/**
 * The command line: `turnstep <command>`.
 *
 * Owns: the list of commands, the exit codes, what a signal does. Does not own: any command (`cli/`).
 *
 * - M1. Exit codes: 0 done (or stopped, for a command that only ends that way), 1 failed, 2 used wrongly, 3 a
 *   history has findings, 130 interrupted, 141 nobody reads the output any more.
 * - M2. The first signal ends everything in order; a second one ends the process.
 * - M3. Only the command that is asked for is loaded: neither `--help` nor another command waits for its modules.
 * - M4. A reader that leaves, as `| head` does, is a signal like any other.
 */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Cause from "effect/Cause"
import * as CliError from "effect/cli/CliError"
import * as Command from "effect/cli/Command"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { Lifetime } from "./cli/Lifetime.ts"
import { SettingInvalid } from "./Config.ts"
import { version } from "./Version.ts"

/** A command of a module of `cli/`. Unless it is asked for, its name and a line about it stand for it (M3). */
const command = <C extends Command.Command.Any>(
  name: string,
  about: string,
  load: () => Promise<{ readonly command: C }>
): Effect.Effect<C> => {
  const isAsked = process.argv.some((word) => word === name || /^--(completions|wizard)/.test(word))
  if (isAsked) return Effect.map(Effect.promise(load), (module) => module.command)
  const named = Command.make(name).pipe(Command.withDescription(about))
  // It is never run: what is not among the words of the command line is not parsed as a command.
  return Effect.succeed(named as unknown as C)
}

const commands = Effect.all([
  command("dev", "Start a server for development", () => import("./cli/Dev.ts")),
  command("serve", "Start a server whose storage was chosen", () => import("./cli/Serve.ts")),
  command("chat", "Talk to a session from the terminal", () => import("./cli/Chat.ts")),
  command("sessions", "Look at sessions on record", () => import("./cli/SessionCommand.ts")),
  command("verify", "Say what a provider would refuse in a message history", () => import("./cli/Verify.ts")),
  command("repair", "Mend a message history so that its provider takes it", () => import("./cli/Repair.ts")),
  command("import", "Go on in a session from a message history", () => import("./cli/Import.ts")),
  command("export", "Write a session's messages in a format", () => import("./cli/Export.ts")),
  command("migrate", "Bring a PostgreSQL schema up to date", () => import("./cli/Migrate.ts")),
  command("doctor", "Check what a server needs here", () => import("./cli/Doctor.ts"))
])

const turnstep = Effect.map(commands, (subcommands) =>
  Command.make("turnstep").pipe(
    Command.withDescription("A durable Turn/Step runtime for agents. Start with `turnstep dev`."),
    Command.withSubcommands(subcommands)
  )
)

let codeWhenStopped = 130

const lifetime = Lifetime.of({
  endsBySignal: Effect.sync(() => {
    codeWhenStopped = 0
  })
})

/** M1 */
const codeOf = (error: unknown): number => {
  if (CliError.isCliError(error)) return error._tag === "ShowHelp" && error.errors.length === 0 ? 0 : 2
  if (error instanceof SettingInvalid) return 2
  const isCoded = typeof error === "object" && error !== null && "exitCode" in error
  return isCoded && typeof error.exitCode === "number" ? error.exitCode : 1
}

/** One line for what went wrong. A failure that brings its own exit code has been told already, as a misused command has. */
const tell = (cause: Cause.Cause<unknown>) => {
  if (Cause.hasInterruptsOnly(cause)) return Effect.void
  const error = Cause.squash(cause)
  const isTold = CliError.isCliError(error) || (typeof error === "object" && error !== null && "exitCode" in error)
  if (isTold) return Effect.void
  const isBug = cause.reasons.some(Cause.isDieReason)
  const text = error instanceof Error ? error.message : String(error)
  return Console.error(
    isBug
      ? `turnstep: unexpected error: ${text}\nRun it again with TURNSTEP_DEBUG=1 for the details.${details(cause)}`
      : `turnstep: ${text}`
  )
}

const details = (cause: Cause.Cause<unknown>): string =>
  process.env["TURNSTEP_DEBUG"] === "1" ? `\n${Cause.pretty(cause)}` : ""

/** A terminal's Ctrl-C reaches us twice when a parent passes it on; only a later one is a second wish (M2). */
const repeatedWithin = 500
let firstSignalAt: number | undefined
for (const [signal, code] of [
  ["SIGINT", 130],
  ["SIGTERM", 143]
] as const) {
  process.on(signal, () => {
    const now = performance.now()
    firstSignalAt ??= now
    if (now - firstSignalAt > repeatedWithin) process.exit(code)
  })
}

/** What cannot be kept, as on a full disk: a log is done without, a result is not. */
const unwritten = (output: NodeJS.WriteStream, { code }: NodeJS.ErrnoException): void => {
  if (output !== process.stdout) return
  console.error(`turnstep: the output cannot be written (${code}).`)
  process.exit(1)
}

/** M4. Without a listener a broken pipe ends the process with a stack trace. */
let hasReader = true
for (const output of [process.stdout, process.stderr]) {
  output.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code !== "EPIPE") return unwritten(output, error)
    if (hasReader && codeWhenStopped !== 0) codeWhenStopped = 141
    if (hasReader) process.kill(process.pid, "SIGTERM")
    hasReader = false
  })
}

Effect.flatMap(turnstep, (command) => Command.run(command, { version })).pipe(
  Effect.tapCause(tell),
  Effect.provideService(Lifetime, lifetime),
  Effect.provide(NodeServices.layer),
  NodeRuntime.runMain({
    disableErrorReporting: true,
    teardown: (exit, onExit) => {
      if (Exit.isSuccess(exit)) return onExit(0)
      onExit(Cause.hasInterruptsOnly(exit.cause) ? codeWhenStopped : codeOf(Cause.squash(exit.cause)))
    }
  })
)
