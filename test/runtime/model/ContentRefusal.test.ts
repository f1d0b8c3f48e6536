import { assert, describe, it } from "@effect/vitest"
import type { Kind } from "@turnstep/core/SetAside"
import * as ContentRefusal from "@turnstep/runtime/model/ContentRefusal"

const sentences: ReadonlyArray<readonly [Kind, string]> = [
  ["image", "Could not process image"],
  ["image", "messages.0.content.1.image.source.base64.data: Image does not match the provided media type image/png"],
  ["image", "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 5316852 bytes > 5242880 bytes"],
  [
    "image",
    "messages.0.content.0.image.source.base64.data: At least one of the image dimensions exceed max allowed size: 8000 pixels"
  ],
  ["image", "The image was specified using the image/png media type, but the image appears to be a image/jpeg image"],
  ["image", "You uploaded an unsupported image. Please make sure your image is valid."],
  ["image", "The image data you provided does not represent a valid image. Please check your input and try again."],
  ["image", "Invalid content type. image_url is only supported by certain models."],
  ["image", "Failed to deserialize the JSON body: messages[1]: unknown variant `image_url`, expected `text`"],
  ["image", "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj"],
  ["image", "No endpoints found that support image input"],
  ["image", "This model does not support image input."],
  ["image", "The model gpt-3.5-turbo doesn't support images"],
  ["image", "Unable to process input image. Please retry or report"],
  ["image", "At most 1 image(s) may be provided in one request."],
  ["image", "Too many images in request: 21 > 20"],
  ["image", "Failed to decode the base64 image"],
  ["image", "invalid image input"],
  ["any", "Invalid MIME type. Only image types are supported."],
  ["any", "Unsupported MIME type: application/zip"],
  ["any", "'media type: video/mp4' functionality not supported."],
  ["any", "The PDF specified was not valid."],
  ["any", "messages.0.content.0.pdf: The PDF is password protected"],
  ["any", "The document has no pages."],
  ["any", "Cannot fetch content from the provided URL."],
  ["any", "multimodal data provided, but model does not support multimodal requests."],
  ["any", "messages[0].content: invalid type: sequence, expected a string at line 1 column 40"],
  ["audio", "This model does not support audio input"],
  ["audio", "audio input is not supported - hint: you may need to provide the mmproj"],
  ["audio", "Invalid audio data"],
  ["video", "This model does not support video"]
]

const others: ReadonlyArray<string> = [
  "Unsupported parameter: 'temperature' is not supported with this model.",
  "Unsupported value: 'messages[0].role' does not support 'developer' with this model.",
  "Invalid schema for function 'look': schema must be an object",
  "messages.2: `tool_use` ids were found without `tool_result` blocks immediately after",
  "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'.",
  "This model does not support tools",
  "This model's maximum context length is 8192 tokens",
  "The model `vision-preview` does not exist",
  "max_tokens is too large",
  "messages.1.content.0.thinking.signature: Field required",
  "Your credit balance is too low to access the API"
]

describe("ContentRefusal", () => {
  for (const [kind, text] of sentences) {
    it(`takes as a refusal of ${kind}: ${text.slice(0, 70)}`, () =>
      assert.strictEqual(ContentRefusal.kindOf({ status: 400, codes: [], text }), kind))
  }
  for (const text of others) {
    it(`takes as a refusal of something else: ${text.slice(0, 70)}`, () =>
      assert.isUndefined(ContentRefusal.kindOf({ status: 400, codes: [], text })))
  }
  for (const code of [
    "invalid_image_format",
    "invalid_base64_image",
    "image_parse_error",
    "failed_to_download_image"
  ]) {
    it(`knows the code ${code}`, () =>
      assert.strictEqual(ContentRefusal.kindOf({ status: 400, codes: [code], text: "?" }), "image"))
  }
  for (const status of [401, 402, 403, 429]) {
    it(`leaves a refusal with ${status} alone, whatever it says`, () =>
      assert.isUndefined(ContentRefusal.kindOf({ status, codes: [], text: "image input is not supported" })))
  }
})
