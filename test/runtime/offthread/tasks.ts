/** Tasks of the tests of `OffThread`, loaded by its task processes. */
import * as fs from "node:fs"
import { OutOfTime } from "../../../packages/runtime/src/offthread/TaskMessage.ts"

/** Two named pipes: the task writes to the first when it runs, and `hold` reads the second before it ends. */
export interface Gate {
  readonly running: string
  readonly open: string
}

export const add = ([a, b]: readonly [number, number]): number => a + b

export const fail = (message: string): never => {
  throw new Error(message)
}

export const outOfTime = (message: string): never => {
  throw new OutOfTime(message)
}

/** Ends the process as V8 does when something is wrong with it. */
export const abort = (): never => process.abort()

export const leave = (code: number): never => process.exit(code)

export const hoard = (): number => {
  const kept: Array<unknown> = []
  for (;;) kept.push({ length: kept.length, text: String(kept.length) })
}

/** Never ends, and yields to nothing. */
export const spin = (gate: Gate): never => {
  announce(gate)
  for (;;);
}

export const hold = (gate: Gate): string => {
  announce(gate)
  fs.readFileSync(gate.open)
  return "done"
}

export const pid = (): number => process.pid

export const environment = (): ReadonlyArray<string> => Object.keys(process.env)

const announce = (gate: Gate): void => {
  fs.writeFileSync(gate.running, "")
}
