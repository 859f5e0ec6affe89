/** A client of TensorFlow's masters: dtfctl's tasks and stock TensorFlow servers. */

export * from "./browser.js";
export { GrpcTransport, type Tls } from "./grpc.js";
export { clusterTls, connectCluster, connectJob } from "./cluster.js";
