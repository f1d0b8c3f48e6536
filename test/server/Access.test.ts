import { assert, describe, it } from "@effect/vitest"
import * as Access from "@turnstep/server/http/Access"
import * as Redacted from "effect/Redacted"

const token = "0123456789abcdef0123456789abcdef"
const rules = (options: Partial<Parameters<typeof Access.make>[0]> = {}) =>
  Access.make({
    host: "127.0.0.1",
    port: 4199,
    allowHosts: [],
    allowOrigins: [],
    token: Redacted.make(token),
    ...options
  })

const good: Access.Headers = {
  hosts: ["127.0.0.1:4199"],
  origin: undefined,
  authorization: `Bearer ${token}`,
  site: undefined,
  destination: undefined
}
const codeOf = (headers: Partial<Access.Headers>, access = rules(), isPublic = false) =>
  Access.denial(access, { ...good, ...headers }, isPublic)?.code

describe("Access", () => {
  it("lets in who calls it by name with its token", () => {
    for (const host of ["127.0.0.1:4199", "localhost:4199", "LOCALHOST:4199", "[::1]:4199"]) {
      assert.isUndefined(codeOf({ hosts: [host] }), host)
    }
    assert.isUndefined(codeOf({ authorization: `bearer  ${token}` }))
  })

  it("refuses every other name", () => {
    const names = [
      "evil.com",
      "evil.com:4199",
      "localhost.evil.com:4199",
      "127.0.0.1",
      "127.0.0.1:80",
      "127.0.0.1:41990",
      "0.0.0.0:4199",
      "localhost.:4199",
      "localhost:4199.",
      "user@localhost:4199",
      " localhost:4199",
      ""
    ]
    for (const name of names) assert.strictEqual(codeOf({ hosts: [name] }), "host-not-allowed", name)
    assert.strictEqual(codeOf({ hosts: [] }), "host-not-allowed")
    assert.strictEqual(codeOf({ hosts: ["127.0.0.1:4199", "127.0.0.1:4199"] }), "host-not-allowed")
  })

  it("lets a page of another site lead to a public path, and embed nothing", () => {
    const asks = (destination: string) => ({ site: "cross-site", destination, authorization: undefined })
    for (const embedded of ["image", "iframe", "empty"]) {
      assert.strictEqual(codeOf(asks(embedded), rules(), true), "origin-not-allowed", embedded)
    }
    assert.strictEqual(codeOf(asks("document")), "origin-not-allowed")
    assert.isUndefined(codeOf(asks("document"), rules(), true))
    for (const site of ["same-origin", "same-site", "none"]) assert.isUndefined(codeOf({ site, destination: "empty" }))
    const asked = { site: "cross-site", destination: "empty", origin: "http://app.test" }
    assert.isUndefined(codeOf(asked, rules({ allowOrigins: ["http://app.test"] })))
  })

  it("refuses pages of every other origin, the null origin among them", () => {
    const origins = [
      "http://evil.com",
      "http://localhost.evil.com:4199",
      "http://127.0.0.1",
      "http://127.0.0.1:1",
      "https://127.0.0.1:4199",
      "http://127.0.0.1:4199/",
      "http://127.0.0.1:41990",
      "HTTP://127.0.0.1:4199",
      "null",
      "*",
      ""
    ]
    for (const origin of origins) assert.strictEqual(codeOf({ origin }), "origin-not-allowed", origin)
    assert.isUndefined(codeOf({ origin: "http://127.0.0.1:4199" }))
    assert.isUndefined(codeOf({ origin: "http://localhost:4199" }))
  })

  it("refuses every other token", () => {
    const headers = [
      undefined,
      "",
      token,
      "Bearer",
      "Bearer ",
      `Bearer ${token}x`,
      `Bearer ${token.slice(1)}`,
      `Bearer ${token.slice(0, -1)}`,
      `Bearer ${token} ${token}`,
      `Bearer ${token.toUpperCase()}`,
      `Basic ${token}`,
      `Bearer${token}`
    ]
    for (const authorization of headers) {
      assert.strictEqual(codeOf({ authorization }), "unauthorized", String(authorization))
    }
  })

  it("asks for the host before the origin, and for the origin before the token", () => {
    const all = { hosts: ["evil.com"], origin: "http://evil.com", authorization: undefined }
    assert.strictEqual(codeOf(all), "host-not-allowed")
    assert.strictEqual(codeOf({ ...all, hosts: good.hosts }), "origin-not-allowed")
    assert.strictEqual(codeOf({ ...all, hosts: good.hosts, origin: undefined }), "unauthorized")
  })

  it("lets public paths in without a token, but not by another name or from another page", () => {
    assert.isUndefined(codeOf({ authorization: undefined }, rules(), true))
    assert.strictEqual(codeOf({ hosts: ["evil.com"], authorization: undefined }, rules(), true), "host-not-allowed")
    assert.strictEqual(codeOf({ origin: "null", authorization: undefined }, rules(), true), "origin-not-allowed")
  })

  it("knows the address it is bound to, and what the operator allows besides", () => {
    const own = rules({ host: "192.168.1.5", allowHosts: ["Agents.example:443"], allowOrigins: ["https://a.example"] })
    assert.isUndefined(codeOf({ hosts: ["192.168.1.5:4199"] }, own))
    assert.isUndefined(codeOf({ hosts: ["agents.example:443"] }, own))
    assert.isUndefined(codeOf({ origin: "https://a.example" }, own))
    assert.strictEqual(codeOf({ origin: "https://b.example" }, own), "origin-not-allowed")
    assert.isUndefined(codeOf({ hosts: ["localhost"] }, rules({ port: 80 })))
    assert.strictEqual(codeOf({ hosts: ["0.0.0.0:4199"] }, rules({ host: "0.0.0.0" })), "host-not-allowed")
    assert.isUndefined(codeOf({ hosts: ["[fd00::1]:4199"] }, rules({ host: "fd00::1" })))
  })

  it("tells loopback addresses from those that others can reach", () => {
    for (const host of ["127.0.0.1", "127.8.8.8", "::1", "localhost"]) assert.isTrue(Access.isLoopback(host), host)
    for (const host of [
      "0.0.0.0",
      "::",
      "",
      "10.0.0.1",
      "127.0.0.1.evil.com",
      "localhost.evil.com",
      "::ffff:127.0.0.1"
    ]) {
      assert.isFalse(Access.isLoopback(host), host)
    }
  })

  it("shows what was sent without control characters, and not much of it", () => {
    const detail = Access.denial(rules(), { ...good, hosts: [`\u001b[31m${"x".repeat(500)}`] }, false)?.detail ?? ""
    assert.isBelow(detail.length, 200)
    assert.notMatch(detail, /[^\x20-\x7e]/)
  })
})
