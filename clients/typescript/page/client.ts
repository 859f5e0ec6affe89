/** What pages of dtfctl's dashboard have of the client: bundled into its static/client.js by `npm run bundle`. */

export { ConnectTransport } from "../src/connect.js";
export { OpError } from "../src/errors.js";
export { Graph } from "../src/graph.js";
export { importGraph } from "../src/imported.js";
export { Session } from "../src/session.js";
export { Tensor } from "../src/tensor.js";
