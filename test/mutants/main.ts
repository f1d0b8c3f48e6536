/**
 * Takes the guards of the program away, one at a time, each in a copy of the repository; a test must notice each.
 *
 *     npm run test:mutants                      all of them
 *     npm run test:mutants -- fence-sql detach  some
 *
 * Ends with 1 when nobody notices, when a guard is not where the list says, or when the suites fail without any change.
 */
import * as Copy from "./Copy.ts"
import * as Mutants from "./Mutants.ts"
import * as Trial from "./Trial.ts"

const stop = new AbortController()
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => stop.abort())

/** Runs suites in a copy that was changed. */
const tryIn = async (change: (copy: Copy.Copy) => void, suites: ReadonlyArray<string>): Promise<Trial.Trial> => {
  const copy = Copy.make()
  try {
    change(copy)
    return await Trial.run(copy, suites, stop.signal)
  } finally {
    copy.remove()
  }
}

const tell = (verdict: string, name: string, seconds: number, what: string): void =>
  console.log(`${verdict.padEnd(9)} ${name.padEnd(28)} ${seconds.toFixed(1).padStart(6)} s  ${what}`)

const names = process.argv.slice(2)
const unknown = names.filter((name) => !Mutants.mutants.some((mutant) => mutant.name === name))
if (unknown.length > 0) throw new Error(`there is no mutant ${unknown.join(", ")}`)
const chosen = Mutants.mutants.filter(({ name }) => names.length === 0 || names.includes(name))
const suites = [...new Set(chosen.flatMap((mutant) => mutant.suites))]

const sound = await tryIn(() => {}, suites)
const fault = sound.problem ?? sound.failed
tell(fault === undefined ? "sound" : "UNSOUND", "(no change)", sound.seconds, fault ?? `${sound.passed} tests passed`)
if (fault !== undefined) process.exit(1)

let survivors = 0
for (const mutant of chosen) {
  const { failed, problem, seconds } = await tryIn(
    ({ edit }) => edit(mutant.file, (source) => Mutants.apply(mutant, source)),
    mutant.suites
  )
  if (failed === undefined) survivors++
  const verdict = failed !== undefined ? "caught" : problem === undefined ? "SURVIVED" : "UNTRIED"
  tell(
    verdict,
    mutant.name,
    seconds,
    `${mutant.does}: ${failed ?? problem ?? `${mutant.suites.join(", ")} noticed nothing`}`
  )
}
console.log(`${chosen.length - survivors} of ${chosen.length} caught`)
process.exitCode = survivors === 0 ? 0 : 1
