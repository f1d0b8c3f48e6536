/** What a collector receives of a Turn: a real one, over HTTP on the loopback. */
import { assert, describe, it } from "@effect/vitest"
import { NodeHttpClient } from "@effect/platform-node"
import * as Agent from "@turnstep/runtime/Agent"
import * as Runtime from "@turnstep/runtime/Runtime"
import * as Session from "@turnstep/runtime/Session"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Metric from "effect/Metric"
import { OtlpSerialization, OtlpTracer, OtlpLogger, OtlpMetrics } from "effect/observability"
import * as Schema from "effect/Schema"
import * as http from "node:http"
import type { AddressInfo } from "node:net"

const { calls, script, text } = StrictProvider

interface Attribute {
  readonly key: string
  readonly value: { readonly [kind: string]: unknown }
}
interface Span {
  readonly name: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly attributes: ReadonlyArray<Attribute>
  readonly status: { readonly code: number }
}
interface LogLine {
  readonly body: { readonly stringValue?: string }
  readonly attributes: ReadonlyArray<Attribute>
}
interface Measured {
  readonly name: string
  readonly histogram?: { readonly dataPoints: ReadonlyArray<Point> }
  readonly gauge?: { readonly dataPoints: ReadonlyArray<Point> }
}
interface Point {
  readonly attributes: ReadonlyArray<Attribute>
  readonly count?: string | number
  readonly sum?: number
}

const valuesOf = (attributes: ReadonlyArray<Attribute>): Record<string, unknown> =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]))

/** A collector that keeps what it receives. */
const collector = Effect.gen(function* () {
  const received: Array<{ readonly path: string; readonly body: Record<string, unknown> }> = []
  const server = http.createServer((request, response) => {
    const chunks: Array<Buffer> = []
    request.on("data", (chunk: Buffer) => chunks.push(chunk))
    request.on("end", () => {
      received.push({ path: request.url ?? "", body: JSON.parse(Buffer.concat(chunks).toString()) })
      response.end("{}")
    })
  })
  yield* Effect.acquireRelease(
    Effect.callback<void>((resume) => {
      server.listen(0, "127.0.0.1", () => resume(Effect.void))
    }),
    () =>
      Effect.callback<void>((resume) => {
        server.close(() => resume(Effect.void))
        server.closeAllConnections()
      })
  )
  const all = <A>(path: string, scopes: string, inner: string, items: string): ReadonlyArray<A> =>
    received
      .filter((each) => each.path.endsWith(path))
      .flatMap(
        ({ body }) => body[scopes] as ReadonlyArray<Record<string, ReadonlyArray<Record<string, ReadonlyArray<A>>>>>
      )
      .flatMap((resource) => resource[inner] ?? [])
      .flatMap((scope) => scope[items] ?? [])
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans: () => all<Span>("/v1/traces", "resourceSpans", "scopeSpans", "spans"),
    logs: () => all<LogLine>("/v1/logs", "resourceLogs", "scopeLogs", "logRecords"),
    metrics: () => all<Measured>("/v1/metrics", "resourceMetrics", "scopeMetrics", "metrics")
  }
})

const Ask = Tool.make("ask", { parameters: Schema.Struct({ n: Schema.Finite }), success: Schema.String })
const kit = Toolkit.make(Ask)

describe("Telemetry", () => {
  it.live("names session, agent, Turn, step and call where they belong, and hangs a tool's spans under its call", () =>
    Effect.gen(function* () {
      const collected = yield* collector
      const both = yield* Deferred.make<void>()
      let asking = 0
      const exported = Layer.mergeAll(
        OtlpTracer.layer({ url: `${collected.url}/v1/traces`, resource: { serviceName: "t" } }),
        OtlpLogger.layer({ url: `${collected.url}/v1/logs`, resource: { serviceName: "t" } }),
        OtlpMetrics.layer({ url: `${collected.url}/v1/metrics`, resource: { serviceName: "t" } })
      ).pipe(Layer.provide([OtlpSerialization.layerJson, NodeHttpClient.layerNodeHttp]))
      const sessionId = yield* Effect.scoped(
        Effect.gen(function* () {
          const telemetry = yield* Layer.build(exported)
          return yield* Effect.provideContext(
            Effect.gen(function* () {
              const provider = yield* StrictProvider.make({
                respond: script([
                  calls(
                    [1, 2].map((n) => ({ name: "ask", arguments: { n } })),
                    { usage: { prompt_tokens: 30, completion_tokens: 12 } }
                  ),
                  text("done")
                ])
              })
              const handlers = kit.toLayer({
                ask: ({ n }) =>
                  Effect.gen(function* () {
                    if (++asking === 2) yield* Deferred.succeed(both, undefined)
                    yield* Deferred.await(both)
                    yield* Effect.logInfo(`query ${n}`)
                    return `${n}`
                  }).pipe(Effect.withSpan(`query ${n}`))
              })
              const teller = Agent.make("teller", { instructions: "i", toolkit: kit })
              const runtime = Runtime.layerMemory([teller]).pipe(Layer.provide([handlers, provider.layer]))
              const session = yield* Effect.gen(function* () {
                const session = yield* Session.open()
                yield* session.run("go")
                return session
              }).pipe(Effect.provide(runtime))
              return session.id
            }),
            telemetry
          )
        })
      ).pipe(Effect.provideService(Metric.MetricRegistry, new Map()))

      const spans = collected.spans()
      const byId = new Map(spans.map((span) => [span.spanId, span]))
      const named = (name: string) => spans.filter((span) => span.name === name)
      const turn = named("Turn.run").find((span) => valuesOf(span.attributes)["gen_ai.request.model"] !== undefined)
      assert.isDefined(turn)
      const agent = valuesOf(turn.attributes)["gen_ai.agent.name"]
      assert.strictEqual(agent, "teller")
      const place = { "gen_ai.conversation.id": sessionId, "gen_ai.agent.name": agent, "turnstep.turn.id": "trn_1" }
      assert.deepInclude(valuesOf(turn.attributes), { ...place, "gen_ai.operation.name": "invoke_agent" })
      for (const n of [1, 2]) {
        const [query = assert.fail(`no span of query ${n}`)] = named(`query ${n}`)
        const call = byId.get(query.parentSpanId ?? "")
        assert.strictEqual(call?.name, "ToolRun.run")
        assert.deepInclude(valuesOf(call?.attributes ?? []), {
          ...place,
          "gen_ai.operation.name": "execute_tool",
          "gen_ai.tool.name": "ask",
          "gen_ai.tool.call.id": `cal_1_1_${n - 1}`
        })
        assert.deepInclude(valuesOf(query.attributes), { ...place, "turnstep.step": 1 })
      }
      for (const span of [...named("ModelCall.request"), ...named("LanguageModel.streamText")]) {
        assert.deepInclude(valuesOf(span.attributes), place)
      }
      // A normal end is no error, of whatever is ours.
      assert.deepStrictEqual(
        spans.filter(({ status }) => status.code === 2).map(({ name }) => name),
        []
      )

      const lines = collected.logs().filter(({ body }) => body.stringValue?.startsWith("query "))
      assert.lengthOf(lines, 2)
      for (const line of lines) {
        const n = Number(line.body.stringValue?.slice("query ".length))
        assert.deepInclude(valuesOf(line.attributes), {
          session: sessionId,
          turn: "trn_1",
          step: 1,
          tool: "ask",
          call: `cal_1_1_${n - 1}`
        })
      }

      const measured = collected.metrics()
      const points = (name: string) =>
        measured.filter((metric) => metric.name === name).at(-1)?.histogram?.dataPoints ?? assert.fail(`no ${name}`)
      const used = points("gen_ai.client.token.usage").find(
        ({ attributes }) => valuesOf(attributes)["gen_ai.token.type"] === "input"
      )
      assert.deepInclude(valuesOf(used?.attributes ?? []), {
        "gen_ai.agent.name": agent,
        "gen_ai.operation.name": "chat"
      })
      assert.isAtLeast(used?.sum ?? 0, 30)
      const counts = (name: string) => points(name).reduce((sum, { count }) => sum + Number(count), 0)
      assert.strictEqual(counts("gen_ai.client.operation.duration"), 2)
      assert.strictEqual(counts("gen_ai.execute_tool.duration"), 2)
      assert.strictEqual(counts("turnstep.step.duration"), 2)
      assert.isAtLeast(counts("turnstep.turn.duration"), 1)
      assert.isNotEmpty(measured.filter(({ name }) => name === "turnstep.turns.running"))
    })
  )
})
