/**
 * `GET /metrics`: what this process counts, in the text format of Prometheus. Like everything that says what is done here it
 * needs the token.
 */
import * as PrometheusMetrics from "effect/observability/PrometheusMetrics"

export const layer = PrometheusMetrics.layerHttp({ path: "/metrics" })
