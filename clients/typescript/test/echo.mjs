// Read messages, a line each ({kind, data: base64}), and write each as this client writes what it has read.
import { createInterface } from "node:readline";

import * as messages from "../dist/messages.generated.js";

for await (const line of createInterface({ input: process.stdin })) {
  const { kind, data } = JSON.parse(line);
  let answer;
  try {
    const read = messages[kind].decode(Buffer.from(data, "base64"));
    answer = { data: Buffer.from(messages[kind].encode(read)).toString("base64") };
  } catch (error) {
    answer = { error: error.name };
  }
  console.log(JSON.stringify(answer));
}
