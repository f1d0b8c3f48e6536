import { httpTransport } from "../lib/raw.mjs"
import raw from "./raw.mjs"

export default {
  ...raw,
  label: "raw loop over node:http instead of fetch",
  setup: async ({ baseURL }) => ({ call: httpTransport(baseURL) })
}
