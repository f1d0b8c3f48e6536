/**
 * An MCP server as a child process: JSON-RPC in lines over its stdin and stdout.
 *
 * Beside what `@modelcontextprotocol/client` has for this: the process leads a group, so that what it has started (a
 * launcher such as `npx` starts a shell that starts the server) ends with it; the end of its stderr is kept, because it mostly
 * says why it ended; and a message of many megabytes is read in linear time.
 *
 * - S1. `stop` leaves no process of the group behind: end of input, then TERM, then KILL.
 */
import { deserializeMessage, type JSONRPCMessage, serializeMessage, type Transport } from "@modelcontextprotocol/client"
import { getDefaultEnvironment } from "@modelcontextprotocol/client/stdio"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import * as Endpoint from "./Endpoint.ts"

/** Bytes of one message at the most. */
export const maxMessageBytes = 64 * 1024 * 1024

/** How long a server may take to end when its input has ended, and again when it is told to. */
const grace = { input: Duration.millis(500), term: Duration.seconds(2), kill: Duration.millis(500) }

export class StdioTransport implements Transport {
  onclose?: () => void
  onerror?: (error: Error) => void
  onmessage?: (message: JSONRPCMessage) => void
  readonly #endpoint: Endpoint.Stdio
  #child: ChildProcess | undefined
  #pieces: Array<Buffer> = []
  #size = 0
  #lastWords = ""
  #refused: string | undefined

  constructor(endpoint: Endpoint.Stdio) {
    this.#endpoint = endpoint
  }

  /** The process, once it is started. */
  get child(): ChildProcess | undefined {
    return this.#child
  }

  /** How the server ended, with the line of its stderr that says most; `undefined` while it lives. */
  get end(): string | undefined {
    const { exitCode = null, signalCode = null } = this.#child ?? {}
    if (this.#refused !== undefined) return this.#refused
    // A negative code is that of a process that was never started; its error says more.
    if (signalCode === null && (exitCode === null || exitCode < 0)) return undefined
    const lines = this.#lastWords.split("\n").flatMap((line) => (line.trim() === "" ? [] : [line.trim()]))
    const words = lines.findLast((line) => /error|cannot|not found|denied|invalid|usage/i.test(line)) ?? lines.at(-1)
    const how = signalCode === null ? `it ended with code ${exitCode}` : `it was ended by ${signalCode}`
    return words === undefined ? how : `${how}: ${words}`
  }

  async start(): Promise<void> {
    const { args, command, cwd, env } = this.#endpoint
    const child = spawn(command, [...(args ?? [])], {
      cwd,
      env: { ...getDefaultEnvironment(), ...Endpoint.plain(env) },
      stdio: ["pipe", "pipe", "pipe"],
      detached: hasGroups,
      windowsHide: true
    })
    this.#child = child
    child.stdin.on("error", (error) => this.onerror?.(error))
    child.stdout.on("error", (error) => this.onerror?.(error))
    child.stdout.on("data", (chunk: Buffer) => this.#receive(chunk))
    child.stderr.on("data", (chunk: Buffer) => {
      this.#lastWords = (this.#lastWords + chunk.toString()).slice(-2048)
    })
    child.on("close", () => this.onclose?.())
    await once(child, "spawn")
    child.on("error", (error) => this.onerror?.(error))
  }

  async send(message: JSONRPCMessage): Promise<void> {
    const stdin = this.#child?.stdin
    if (stdin === undefined || stdin === null || !stdin.writable) throw new Error("its input is closed")
    if (!stdin.write(serializeMessage(message))) await once(stdin, "drain")
  }

  /** Ends the server's input; `stop` waits for what becomes of it. */
  async close(): Promise<void> {
    this.#child?.stdin?.end()
  }

  #receive(chunk: Buffer): void {
    let rest = chunk
    for (let end = rest.indexOf(10); end >= 0; end = rest.indexOf(10)) {
      const line = Buffer.concat([...this.#pieces.splice(0), rest.subarray(0, end)]).toString()
      this.#size = 0
      rest = rest.subarray(end + 1)
      if (line.trim() !== "") this.#read(line)
    }
    if (rest.length === 0) return
    this.#pieces.push(rest)
    this.#size += rest.length
    if (this.#size <= maxMessageBytes) return
    this.#pieces = []
    this.#refused = `it sent a message of more than ${maxMessageBytes} bytes`
    this.#child?.stdout?.destroy()
    this.onclose?.()
  }

  #read(line: string): void {
    let message: JSONRPCMessage
    try {
      message = deserializeMessage(line)
    } catch (error) {
      // Some servers write what belongs on stderr to stdout; the protocol goes on.
      this.onerror?.(error instanceof Error ? error : new Error(String(error)))
      return
    }
    this.onmessage?.(message)
  }
}

/** Ends the process and what it has started (S1). */
export const stop = (transport: StdioTransport): Effect.Effect<void> =>
  Effect.gen(function* () {
    const { child } = transport
    if (child?.pid === undefined) return
    child.stdin?.end()
    if (!(yield* endsWithin(child, grace.input))) {
      signal(child, "SIGTERM")
      if (!(yield* endsWithin(child, grace.term))) {
        signal(child, "SIGKILL")
        yield* endsWithin(child, grace.kill)
      }
    }
    for (const pipe of [child.stdin, child.stdout, child.stderr]) pipe?.destroy()
  })

const hasGroups = process.platform !== "win32"

const endsWithin = (child: ChildProcess, time: Duration.Duration): Effect.Effect<boolean> =>
  Effect.sync(() => !lives(child)).pipe(
    Effect.repeat({ until: (isOver) => isOver, schedule: Schedule.spaced("10 millis") }),
    Effect.timeoutOption(time),
    Effect.map((ended) => ended._tag === "Some")
  )

/** Whether the process, or another of its group, still lives. */
const lives = (child: ChildProcess): boolean =>
  (child.exitCode === null && child.signalCode === null) || (hasGroups && signal(child, 0))

/** Sends a signal to the group; false when nobody is left to get it. */
const signal = (child: ChildProcess, name: NodeJS.Signals | 0): boolean => {
  try {
    return hasGroups && child.pid !== undefined ? process.kill(-child.pid, name) : child.kill(name)
  } catch {
    return false
  }
}
