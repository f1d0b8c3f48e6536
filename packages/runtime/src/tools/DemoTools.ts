/**
 * Small real tools, one per thing a runtime must cope with: an answer from outside,
 * a long call, a call that fails, one that leads to the next for ever, and a job to
 * be waited for.
 *
 * Owns: these tools. Does not own: who calls them (`model/Demo` does, any model may).
 *
 * - D1. Nothing outside changes: each tool may be run again (`Tool.Readonly`).
 * - D2. `unreliable` depends on its arguments alone, so a run can be repeated. A job is
 *   nothing but the time of its start in its name, so it outlives every process.
 */
import * as Clock from "effect/Clock"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { LongOutput, longOutput } from "./DemoOutput.ts"

/** The time zone asked for is not in the time zone database. */
export class TimeZoneUnknown extends Schema.TaggedError<TimeZoneUnknown>()("TimeZoneUnknown", {
  timeZone: Schema.String,
  message: Schema.String
}) {}

/** `unreliable` failed, as it does on every first attempt. */
export class Unreliable extends Schema.TaggedError<Unreliable>()("Unreliable", {
  attempt: Schema.Int,
  message: Schema.String
}) {}

/** Tells the time of the runtime's clock. */
export const CurrentTime = Tool.make("current_time", {
  description: "Tell the current date and time as an ISO 8601 string with offset and time zone.",
  parameters: Schema.Struct({
    timeZone: Schema.optionalKey(Schema.String.annotate({ description: "IANA name such as Asia/Tokyo; default: UTC." }))
  }),
  success: Schema.Struct({ iso: Schema.String, timeZone: Schema.String }),
  failure: TimeZoneUnknown,
  failureMode: "return"
}).annotate(Tool.Readonly, true) // D1

/** How far a `slow_task` has come; the last one is its result. */
export const SlowProgress = Schema.Struct({
  label: Schema.String,
  seconds: Schema.Finite.annotate({ description: "How long the task takes" }),
  elapsed: Schema.Finite.annotate({ description: "Seconds worked so far" }),
  done: Schema.Boolean
})
export type SlowProgress = typeof SlowProgress.Type

/** Takes its time, reports progress, and ends at once when it is interrupted. */
export const SlowTask = Tool.make("slow_task", {
  description:
    "Work for a number of seconds and report progress meanwhile. It only waits; it can be cancelled at any time.",
  parameters: Schema.Struct({
    seconds: Schema.optionalKey(
      Schema.Finite.check(Schema.isBetween({ minimum: 0, maximum: 600 })).annotate({ description: "Default 20." })
    ),
    label: Schema.optionalKey(Schema.String.annotate({ description: "A name for the task." }))
  }),
  success: SlowProgress
}).annotate(Tool.Readonly, true)

/** Counts one step of a Turn that does not end by itself. */
export const CountStep = Tool.make("count_step", {
  description: "Count a step: takes n and gives n with the number that comes next.",
  parameters: Schema.Struct({ n: Schema.Int }),
  success: Schema.Struct({ n: Schema.Int, next: Schema.Int })
}).annotate(Tool.Readonly, true)

/** Fails at attempt 1 and works from attempt 2 on (D2). */
export const UnreliableTool = Tool.make("unreliable", {
  description: "A tool that fails when attempt is 1 and works when it is 2 or more.",
  parameters: Schema.Struct({ attempt: Schema.Int.check(Schema.isGreaterThanOrEqualTo(1)) }),
  success: Schema.Struct({ attempt: Schema.Int, message: Schema.String }),
  failure: Unreliable,
  failureMode: "return"
}).annotate(Tool.Readonly, true)

/** There is no such job. */
export class JobUnknown extends Schema.TaggedError<JobUnknown>()("JobUnknown", {
  job: Schema.String,
  message: Schema.String
}) {}

/** Starts a job that goes on by itself. */
export const StartJob = Tool.make("start_job", {
  description: "Start a job that takes a number of seconds, and give its name. Ask job_status how far it has come.",
  parameters: Schema.Struct({
    seconds: Schema.Finite.check(Schema.isBetween({ minimum: 0, maximum: 600 }))
  }),
  success: Schema.Struct({ job: Schema.String })
}).annotate(Tool.Readonly, true)

/** How far a job has come. */
export const JobStatus = Schema.Struct({
  job: Schema.String,
  percent: Schema.Int,
  state: Schema.Literals(["running", "done"])
})

/** Asks how far a job has come. */
export const JobStatusTool = Tool.make("job_status", {
  description: "Tell how far a job has come. Waits half a second for something new while the job runs.",
  parameters: Schema.Struct({ job: Schema.String }),
  success: JobStatus,
  failure: JobUnknown,
  failureMode: "return"
}).annotate(Tool.Readonly, true)

/** `current_time`, `slow_task`, `count_step`, `unreliable`, `start_job`, `job_status` and `long_output`. */
export const toolkit = Toolkit.make(
  CurrentTime,
  SlowTask,
  CountStep,
  UnreliableTool,
  StartJob,
  JobStatusTool,
  LongOutput
)

const currentTime = Effect.fn("DemoTools.currentTime")(function* (params: Tool.Parameters<typeof CurrentTime>) {
  const timeZone = params.timeZone ?? "UTC"
  const zoned = DateTime.setZoneNamed(yield* DateTime.now, timeZone)
  if (Option.isNone(zoned)) {
    return yield* new TimeZoneUnknown({
      timeZone,
      message: `There is no time zone ${timeZone}. Use an IANA name such as Europe/Berlin.`
    })
  }
  return { iso: DateTime.formatIsoZoned(zoned.value), timeZone }
})

const slowTask = Effect.fn("DemoTools.slowTask")(function* (
  params: Tool.Parameters<typeof SlowTask>,
  context: Toolkit.HandlerContext<typeof SlowTask>
) {
  const seconds = params.seconds ?? 20
  const label = params.label ?? "slow task"
  const ticks = Math.ceil(seconds / tickSeconds)
  for (let tick = 0; tick < ticks; tick++) {
    const elapsed = tick * tickSeconds
    yield* context.preliminary({ label, seconds, elapsed, done: false })
    yield* Effect.sleep(Math.min(tickSeconds, seconds - elapsed) * 1000)
  }
  return { label, seconds, elapsed: seconds, done: true } satisfies SlowProgress
})

const countStep = Effect.fn("DemoTools.countStep")(({ n }: Tool.Parameters<typeof CountStep>) =>
  Effect.succeed({ n, next: n + 1 })
)

const unreliable = Effect.fn("DemoTools.unreliable")(function* ({ attempt }: Tool.Parameters<typeof UnreliableTool>) {
  if (attempt < 2) return yield* new Unreliable({ attempt, message: "The first attempt fails. Try attempt 2." })
  return { attempt, message: `Attempt ${attempt} worked.` }
})

const startJob = Effect.fn("DemoTools.startJob")(function* ({ seconds }: Tool.Parameters<typeof StartJob>) {
  return { job: `job-${yield* Clock.currentTimeMillis}-${Math.round(seconds * 1000)}` }
})

const jobStatus = Effect.fn("DemoTools.jobStatus")(function* ({ job }: Tool.Parameters<typeof JobStatusTool>) {
  const [, started, takes] = /^job-(\d{1,15})-(\d{1,9})$/.exec(job) ?? []
  if (started === undefined) return yield* new JobUnknown({ job, message: `There is no job ${job.slice(0, 80)}.` })
  const left = Number(started) + Number(takes) - (yield* Clock.currentTimeMillis)
  yield* Effect.sleep(Math.min(tickSeconds * 2000, Math.max(0, left)))
  const passed = (yield* Clock.currentTimeMillis) - Number(started)
  const done = passed >= Number(takes) ? 1 : passed / Number(takes)
  return { job, percent: Math.floor(done * 100), state: done >= 1 ? "done" : "running" } as const
})

/** The handlers of `toolkit`. */
export const layer = toolkit.toLayer({
  current_time: currentTime,
  slow_task: slowTask,
  count_step: countStep,
  unreliable,
  start_job: startJob,
  job_status: jobStatus,
  long_output: longOutput
})

const tickSeconds = 0.25
